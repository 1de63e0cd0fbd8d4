// Measures how far the page moves by itself, and notes its headlines with the milliseconds since it was opened.
window.shift = 0;
window.headlines = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shift += entry.value;
}).observe({ type: "layout-shift", buffered: true });
addEventListener("DOMContentLoaded", () => {
  const headline = document.getElementById("sentence");
  const note = () => {
    if (headline.textContent !== window.headlines.at(-1)?.[1]) window.headlines.push([performance.now(), headline.textContent]);
  };
  note();
  new MutationObserver(note).observe(headline, { childList: true, subtree: true, characterData: true });
});
