// Draws the charts one by one. They are SVG in the page's own colours, so they follow its theme by themselves.
(async () => {
  const { values, drawn, clock } = listing;
  const names = Object.keys(values);
  const places = drawn ?? [...(values.number ?? []).keys()];
  const rows = places.map((place) => {
    const row = Object.fromEntries(names.map((name) => [name, values[name][place]]));
    return clock === "utc" ? { ...row, at_said: utc(row.at) } : row;
  });
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    ast: true,
    actions: false,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };
  for (const { name, spec } of charts) {
    const place = document.querySelector(`[data-chart="${name}"]`);
    place.replaceChildren();
    await vegaEmbed(place, { ...spec, datasets: { ...spec.datasets, [requests]: rows } }, options).catch((error) => {
      place.textContent = "This chart could not be drawn here.";
      console.error(error);
    });
    await new Promise((resolve) => setTimeout(resolve));
  }
  document.documentElement.dataset.drawn = charts.length;
})();
