// A click on a heading sorts its table: best-looking order first, the other way on the second click, empty places last.
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement, body = heading.closest("table").tBodies[0];
    const column = heading.cellIndex;
    const keys = new Map([...body.rows].map(row => [row, row.cells[column].dataset.key]));
    const known = [...keys.values()].filter(key => key !== undefined);
    const numeric = known.length > 0 && known.every(key => key !== "" && isFinite(key));
    const rising = heading.ariaSort ? heading.ariaSort === "descending" : !numeric;
    for (const other of heading.parentElement.cells) other.ariaSort = null;
    heading.ariaSort = rising ? "ascending" : "descending";
    const sign = rising ? 1 : -1;
    const order = (a, b) => numeric ? a - b : a.localeCompare(b, undefined, {numeric: true});
    body.append(...[...body.rows].sort((first, second) => {
      const a = keys.get(first), b = keys.get(second);
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * order(a, b);
    }));
  });
}
