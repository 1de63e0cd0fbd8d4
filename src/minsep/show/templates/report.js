"use strict";
(() => {
  const night = matchMedia("(prefers-color-scheme: dark)");
  const touch = matchMedia("(pointer: coarse)");
  const nightColours = JSON.parse(document.getElementById("night").textContent);
  const plots = document.querySelectorAll("[data-figure]");
  const config = {
    responsive: true,
    displaylogo: false,
    // A list of what may be there: some versions of plotly add a button that uploads the chart.
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };
  const paper = { width: 640, height: 270 };

  function draw(dark, size = {}) {
    for (const plot of plots) {
      const text = document.getElementById(plot.dataset.figure).textContent;
      const figure = JSON.parse(dark ? text.replace(/#[0-9a-f]{6}/g, (colour) => nightColours[colour] ?? colour) : text);
      const layout = figure.layout;
      // A finger on a plot scrolls the page; a mouse zooms.
      layout.dragmode = touch.matches ? false : "zoom";
      layout.hoverlabel = { bgcolor: dark ? "#232b36" : "#ffffff", font: { color: layout.font.color } };
      layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: layout.yaxis.tickfont.color, activecolor: layout.font.color };
      Plotly.react(plot, figure.data, { ...layout, ...size }, config);
    }
  }

  function confirm(button, word) {
    const before = button.textContent;
    button.textContent = word;
    setTimeout(() => { button.textContent = before; }, 1500);
  }

  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      confirm(button, "Copied");
    } catch {
      getSelection().selectAllChildren(source);
      confirm(button, "Selected");
    }
  }

  function download(button) {
    const source = document.getElementById(button.dataset.download);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([source.textContent + "\n"], { type: "application/json" }));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  for (const button of document.querySelectorAll("[data-copy]")) button.addEventListener("click", () => copy(button));
  for (const button of document.querySelectorAll("[data-download]")) {
    button.addEventListener("click", () => download(button));
  }
  night.addEventListener("change", () => draw(night.matches));
  addEventListener("beforeprint", () => draw(false, paper));
  addEventListener("afterprint", () => draw(night.matches));
  draw(night.matches);
})();
