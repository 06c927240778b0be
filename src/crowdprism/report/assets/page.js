"use strict";
// Tables, the matrix of an annotator, and the theme. Text from data is only ever set as textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 25;
  const NAME = 0, LABELS = 1, ACCURACY = 2, LOW = 3, HIGH = 4, SKILL = 5, AGREEMENT = 6, REMARKS = 7;
  const BAD = /^(no better than guessing|answers against the truth|may copy)/;

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    for (const child of children) element.append(child);
    return element;
  }
  const named = (text) => make("bdi", {}, text);
  const percent = (value, digits = 0) => (value === null ? "–" : (100 * value).toFixed(digits) + "%");
  const whole = (value) => (value === null ? "–" : value.toLocaleString("en"));

  function intervalBar(row) {
    if (row[ACCURACY] === null) return "";
    const bar = make("span", { class: "bar", "aria-hidden": "true" });
    if (row[LOW] !== null) {
      const range = make("i");
      range.style.left = 100 * row[LOW] + "%";
      range.style.width = Math.max(1, 100 * (row[HIGH] - row[LOW])) + "%";
      bar.append(range);
    }
    const point = make("b");
    point.style.left = 100 * row[ACCURACY] + "%";
    bar.append(point);
    return bar;
  }
  const interval = (row) => (row[LOW] === null ? "–" : percent(row[LOW]).replace("%", "") + "–" + percent(row[HIGH]));
  const tags = (texts) =>
    texts.map((text) => make("span", { class: BAD.test(text) ? "tag bad" : "tag" }, named(text)));

  const some = (rows, column) => rows.some((row) => row[column] !== null);
  const people = data.annotators.rows;
  const annotatorColumns = [
    {
      title: "annotator", key: NAME, head: true,
      cell: (row, place) => {
        const notes = row[REMARKS].length ? [make("span", { class: "only-small" }, ...tags(row[REMARKS]))] : [];
        if (!data.annotators.matrices[place] && !data.annotators.confusions[place]) return [named(row[NAME]), ...notes];
        const button = make("button", { type: "button", class: "open", "aria-haspopup": "dialog" }, named(row[NAME]));
        button.addEventListener("click", () => openDetail(row, place));
        return [button, ...notes];
      },
    },
    { title: "labels", key: LABELS, number: true, cell: (row) => [whole(row[LABELS])], need: LABELS },
    { title: "accuracy", key: ACCURACY, number: true, cell: (row) => [percent(row[ACCURACY], 1)], need: ACCURACY },
    { title: "95% interval", key: LOW, number: true, cell: (row) => [interval(row)], need: LOW, small: true },
    { title: "", cell: (row) => [intervalBar(row)], need: ACCURACY, small: true, label: "accuracy as a bar" },
    { title: "skill", key: SKILL, number: true, cell: (row) => [row[SKILL] === null ? "–" : row[SKILL].toFixed(2)], need: SKILL },
    { title: "agrees", key: AGREEMENT, number: true, cell: (row) => [percent(row[AGREEMENT])], need: AGREEMENT, small: true },
    { title: "remarks", cell: (row) => tags(row[REMARKS]), filled: REMARKS, small: true },
  ].filter((column) => (column.need === undefined || some(people, column.need)) &&
    (column.filled === undefined || people.some((row) => row[column.filled].length)));

  const itemColumns = [
    { title: "item", key: 0, head: true, cell: (row) => [named(row[0])] },
    { title: "label", key: 1, cell: (row) => [named(row[1])] },
    { title: "confidence", key: 2, number: true, cell: (row) => [percent(row[2], 1)] },
    { title: "second choice", key: 3, cell: (row) => [named(row[3])], small: true },
    { title: "labels given", key: 4, cell: (row) => [make("span", { class: "given" }, named(row[4]))], filled: 4, small: true },
    { title: "reasons", key: 5, cell: (row) => [make("span", { class: "why" }, row[5].join("; "))] },
  ].filter((column) => column.filled === undefined || data.items.some((row) => row[column.filled].length));

  const order = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };

  function table(place, { rows, columns, noun, sortBy, descending }) {
    const all = rows.map((row, index) => ({ row, index, text: JSON.stringify(row).toLowerCase() }));
    const state = { sortBy, descending, page: 0, query: "" };
    const search = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    const tools = make("div", { class: "tools" }, make("label", {}, `Search ${noun}`, search));
    const body = make("tbody");
    const heads = columns.map((column) => {
      const head = make("th", { scope: "col" });
      if (column.number) head.classList.add("n");
      if (column.small) head.classList.add("hide-small");
      if (column.key === undefined) {
        head.textContent = column.title;
        if (column.label) head.setAttribute("aria-label", column.label);
        return head;
      }
      const button = make("button", { type: "button", class: "sort" }, column.title);
      button.addEventListener("click", () => {
        state.descending = state.sortBy === column.key ? !state.descending : false;
        state.sortBy = column.key;
        state.page = 0;
        show();
      });
      head.append(button);
      return head;
    });
    const grid = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
    const before = make("button", { type: "button" }, "Previous");
    const after = make("button", { type: "button" }, "Next");
    const count = make("span", { role: "status" });
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${noun}` }, grid);
    place.append(tools, scroll, make("div", { class: "pager" }, before, after, count));

    function chosen() {
      const words = state.query.toLowerCase().split(/\s+/).filter(Boolean);
      const found = all.filter((entry) => words.every((word) => entry.text.includes(word)));
      const sign = state.descending ? -1 : 1;
      return found.sort((a, b) => {
        const [x, y] = [a.row[state.sortBy], b.row[state.sortBy]];
        if (x === null || y === null) return order(x, y) || a.index - b.index; // unknown values stay last
        return sign * order(x, y) || a.index - b.index;
      });
    }
    function show() {
      const found = chosen();
      const pages = Math.max(1, Math.ceil(found.length / PAGE));
      state.page = Math.min(state.page, pages - 1);
      const begin = state.page * PAGE;
      body.replaceChildren(...found.slice(begin, begin + PAGE).map(({ row, index }) =>
        make("tr", {}, ...columns.map((column) => {
          const cell = make(column.head ? "th" : "td", column.head ? { scope: "row" } : {}, ...column.cell(row, index));
          if (column.number) cell.classList.add("n");
          if (column.small) cell.classList.add("hide-small");
          return cell;
        }))));
      columns.forEach((column, at) => {
        if (column.key === undefined) return;
        const sorted = column.key === state.sortBy ? (state.descending ? "descending" : "ascending") : "none";
        heads[at].setAttribute("aria-sort", sorted);
      });
      before.disabled = state.page === 0;
      after.disabled = state.page >= pages - 1;
      count.textContent = found.length
        ? `${begin + 1}–${Math.min(begin + PAGE, found.length)} of ${whole(found.length)} ${noun}`
        : `no ${noun} found`;
    }
    search.addEventListener("input", () => { state.query = search.value; state.page = 0; show(); });
    before.addEventListener("click", () => { state.page -= 1; show(); });
    after.addEventListener("click", () => { state.page += 1; show(); });
    show();
  }

  const dialog = document.getElementById("detail");
  document.getElementById("close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  function heatMap(matrix) {
    const head = make("tr", {}, make("td", { class: "corner" }, make("span", {}, "true class ↓"), make("span", {}, "label →")),
      ...data.classes.map((name) => make("th", { scope: "col" }, named(name))));
    const rows = matrix.map((cells, truth) => make("tr", {}, make("th", { scope: "row" }, named(data.classes[truth])),
      ...cells.map((value, given) => make("td", { class: (truth === given ? "r" : "w") + Math.round(value / 10) }, String(value)))));
    const grid = make("table", { class: "heat" }, make("thead", {}, head), make("tbody", {}, ...rows));
    return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Confusion matrix" }, grid);
  }
  function largest(matrix) {
    const found = [];
    matrix.forEach((cells, truth) => cells.forEach((value, given) => {
      if (truth !== given && value >= 5) found.push([truth, given, value]);
    }));
    return found.sort((a, b) => b[2] - a[2]).slice(0, 5);
  }
  function openDetail(row, place) {
    const matrix = data.annotators.matrices[place];
    const mistakes = matrix ? largest(matrix) : data.annotators.confusions[place];
    const parts = [];
    const facts = [];
    if (row[LABELS] !== null) facts.push(`${whole(row[LABELS])} labels`);
    if (row[ACCURACY] !== null) facts.push(`accuracy ${percent(row[ACCURACY], 1)}` + (row[LOW] === null ? "" : ` (95%: ${interval(row)})`));
    if (row[AGREEMENT] !== null) facts.push(`agrees with others on ${percent(row[AGREEMENT])}`);
    parts.push(make("p", {}, facts.join(" · ")));
    if (matrix) {
      parts.push(make("p", { class: "aside" }, "Each row is a true class; the numbers are the percentages of its labels. Blue is right, orange is wrong."));
      parts.push(heatMap(matrix));
    }
    if (mistakes && mistakes.length) {
      parts.push(make("h3", {}, "Largest confusions"), make("ul", { class: "mistakes" }, ...mistakes.map(([truth, given, value]) =>
        make("li", {}, make("b", {}, `${value}%`), " of ", named(data.classes[truth]), " are labelled ", named(data.classes[given])))));
    }
    document.getElementById("detail-h").replaceChildren(named(row[NAME]));
    document.getElementById("detail-body").replaceChildren(...parts);
    dialog.showModal();
  }

  for (const place of document.querySelectorAll("[data-table]")) {
    if (place.dataset.table === "annotators") {
      table(place, { rows: people, columns: annotatorColumns, noun: "annotators", sortBy: some(people, ACCURACY) ? ACCURACY : LABELS, descending: false });
    } else {
      table(place, { rows: data.items, columns: itemColumns, noun: "items", sortBy: undefined, descending: false });
    }
  }

  const themes = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  const remember = (theme) => { try { localStorage.setItem("crowdprism-theme", theme); } catch { /* a file may not keep it */ } };
  const recall = () => { try { return localStorage.getItem("crowdprism-theme"); } catch { return null; } };
  let theme = themes.includes(recall()) ? recall() : "auto";
  function apply() {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    remember(theme);
    apply();
  });
  apply();
})();
