// The table of all requests: sorted by its headers, searched, fifty rows at a time, so any number scrolls well.
const { listing, charts, requests } = JSON.parse(document.getElementById("data").textContent);
for (const [name, values] of Object.entries(listing.values)) {
  if (values.words) listing.values[name] = values.places.map((place) => values.words[place]);
}
const utc = (ms) => ms === null ? "" : new Date(ms).toISOString().slice(0, 19).replace("T", " ");

(() => {
  const table = document.getElementById("requests");
  if (!table) return;
  const { columns, values, page } = listing;
  const amount = values.number.length;
  const formats = [0, 1, 2].map((digits) => new Intl.NumberFormat("en-US", {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    roundingMode: "halfEven",
  }));
  const grouped = (value, digits) => formats[digits].format(value);
  const seconds = (value) => value > 0 && value < 0.005 ? "<0.01" : grouped(value, value < 100 ? 2 : 0);
  const words = {
    text: String,
    time: utc,
    seconds: (value) => seconds(value / 1000),
    rate: (value) => grouped(value, value < 100 ? 1 : 0),
    count: (value) => grouped(value, 0),
  };
  const cell = (column, row) => {
    const value = values[column.name][row];
    return value === null ? "" : words[column.kind](value);
  };
  const sought = (column, row) => {
    const said = cell(column, row);
    return column.kind !== "text" && said.includes(",") ? `${said}\n${said.replaceAll(",", "")}` : said;
  };
  const search = document.getElementById("search");
  const count = document.getElementById("count");
  const [back, on] = document.querySelectorAll(".pages button");
  let shown = [...values.number.keys()];
  let sorted = null;
  let first = 0;
  let texts = null; // made at the first search

  const draw = () => {
    const rows = document.createDocumentFragment();
    for (const row of shown.slice(first, first + page)) {
      const line = document.createElement("tr");
      for (const column of columns) {
        const td = line.insertCell();
        td.textContent = cell(column, row);
        if (column.kind === "text") td.className = "text";
      }
      rows.append(line);
    }
    table.tBodies[0].replaceChildren(rows);
    const last = Math.min(first + page, shown.length);
    const found = shown.length === amount ? "" : ` found, of ${grouped(amount, 0)}`;
    count.textContent = shown.length
      ? `${grouped(first + 1, 0)}–${grouped(last, 0)} of ${grouped(shown.length, 0)}${found}`
      : "No request has this.";
    back.disabled = first === 0;
    on.disabled = last === shown.length;
  };
  const order = () => {
    if (!sorted) return shown.sort((a, b) => a - b);
    const column = values[sorted.name];
    const text = sorted.kind === "text";
    return shown.sort((a, b) => {
      const [one, other] = [column[a], column[b]];
      if (one === null || other === null) return (one === null) - (other === null) || a - b; // unknown is last
      return sorted.sign * (text ? one.localeCompare(other, "en", { numeric: true }) : one - other) || a - b;
    });
  };
  const find = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    texts ??= wanted.length && values.number.map((_, row) => columns.map((c) => sought(c, row)).join("\n").toLowerCase());
    shown = [...values.number.keys()].filter((row) => wanted.every((word) => texts[row].includes(word)));
    order();
    first = 0;
    draw();
  };
  columns.forEach((column, place) => {
    const head = table.tHead.rows[0].cells[place];
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      const down = head.ariaSort ? head.ariaSort === "ascending" : column.kind !== "text" && column.name !== "number";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      sorted = { name: column.name, kind: column.kind, sign: down ? -1 : 1 };
      order();
      first = 0;
      draw();
    });
    head.replaceChildren(button);
  });
  search.addEventListener("input", find);
  back.addEventListener("click", () => { first = Math.max(first - page, 0); draw(); });
  on.addEventListener("click", () => { first += page; draw(); });
  document.querySelector(".tools").hidden = false;
  draw();
})();
