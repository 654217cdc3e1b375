// A button beside each command that copies it; where a browser does not allow that, it selects it.
(() => {
  const said = document.getElementById("said");
  for (const command of document.querySelectorAll(".command")) {
    const code = command.querySelector("code");
    const button = command.querySelector("button");
    button.addEventListener("click", async () => {
      let done = "Copied";
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch {
        getSelection().selectAllChildren(code);
        done = "Selected";
      }
      button.textContent = done;
      said.textContent = done;
      setTimeout(() => { button.textContent = "Copy"; said.textContent = ""; }, 1500);
    });
    button.hidden = false;
  }
})();
