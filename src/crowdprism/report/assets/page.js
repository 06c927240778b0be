"use strict";
// Tables, the matrix of an annotator, and the theme. Text from data is only ever set as textContent.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const PAGE = 25;
  const NAME = 0, LABELS = 1, ACCURACY = 2, LOW = 3, HIGH = 4, SKILL = 5, AGREEMENT = 6, REMARKS = 7, STORY = 8;
  const AGREEING = 0, SECONDS = 1, EARLY = 2, LATE = 3, EXAMPLES = 4;
  const SHOWN = 6, WHO = 7;
  const MOST_PRINTED = 100; // rows that are printed without being asked for
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
        if (!data.annotators.matrices[place] && !data.annotators.confusions[place] && !row[STORY]) return [named(row[NAME])];
        const button = make("button", { type: "button", class: "open", "aria-haspopup": "dialog" }, named(row[NAME]));
        button.addEventListener("click", () => openDetail(row, place));
        return [button];
      },
    },
    { title: "labels", key: LABELS, number: true, cell: (row) => [whole(row[LABELS])], need: LABELS },
    { title: "accuracy", key: ACCURACY, number: true, cell: (row) => [percent(row[ACCURACY], 1)], need: ACCURACY },
    { title: "95% interval", key: LOW, number: true, cell: (row) => [interval(row)], need: LOW },
    { title: "", cell: (row) => [intervalBar(row)], need: ACCURACY, label: "accuracy as a bar" },
    { title: "skill", key: SKILL, number: true, cell: (row) => [row[SKILL] === null ? "–" : row[SKILL].toFixed(2)], need: SKILL },
    { title: "agrees", key: AGREEMENT, number: true, cell: (row) => [percent(row[AGREEMENT])], need: AGREEMENT },
    { title: "remarks", cell: (row) => tags(row[REMARKS]), filled: REMARKS },
  ].filter((column) => (column.need === undefined || some(people, column.need)) &&
    (column.filled === undefined || people.some((row) => row[column.filled].length)));

  const itemColumns = [
    {
      title: "item", key: 0, head: true,
      cell: (row) => {
        const button = make("button", { type: "button", class: "open", "aria-haspopup": "dialog" }, named(row[0]));
        button.addEventListener("click", () => openItem(row));
        const text = row[SHOWN].find((one) => one[1] === "text");
        const image = row[SHOWN].find((one) => one[1] === "image");
        return [button,
          ...(text ? [make("span", { class: "snippet" }, named(text[2].length > 90 ? text[2].slice(0, 90) + " …" : text[2]))] : []),
          ...(image ? [make("img", { class: "thumb", src: image[2], alt: image[0] })] : [])];
      },
    },
    { title: "label", key: 1, cell: (row) => [named(row[1])] },
    { title: "confidence", key: 2, number: true, cell: (row) => [percent(row[2], 1)] },
    { title: "second choice", key: 3, cell: (row) => [named(row[3])] },
    { title: "labels given", key: 4, cell: (row) => [make("span", { class: "given" }, named(row[4]))], filled: 4 },
    { title: "reasons", key: 5, cell: (row) => [make("span", { class: "why" }, row[5].join("; "))] },
  ].filter((column) => column.filled === undefined || data.items.some((row) => row[column.filled].length));

  const order = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };

  function table(place, { rows, columns, noun, sortBy, descending }) {
    const all = rows.map((row, index) => ({ row, index, text: JSON.stringify(row).toLowerCase() }));
    const state = { sortBy, descending, page: 0, query: "", all: false };
    const search = make("input", { type: "search", autocomplete: "off", spellcheck: "false" });
    const tools = make("div", { class: "tools" }, make("label", {}, `Search ${noun}`, search));
    const body = make("tbody");
    const heads = columns.map((column) => {
      const head = make("th", { scope: "col" });
      if (column.number) head.classList.add("n");
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
      head.append(button, make("span", { class: "printed", "aria-hidden": "true" }, column.title)); // buttons do not repeat in print
      return head;
    });
    const grid = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body);
    const before = make("button", { type: "button" }, "Previous");
    const after = make("button", { type: "button" }, "Next");
    const whole_table = make("button", { type: "button", "aria-pressed": "false" }, "Show all");
    const count = make("span", { role: "status" });
    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${noun}` }, grid);
    place.append(tools, scroll, make("div", { class: "pager" }, before, after, ...(rows.length > PAGE ? [whole_table] : []), count));

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
      const size = state.all ? Math.max(found.length, 1) : PAGE;
      const pages = Math.max(1, Math.ceil(found.length / size));
      state.page = Math.min(state.page, pages - 1);
      const begin = state.page * size;
      body.replaceChildren(...found.slice(begin, begin + size).map(({ row, index }) =>
        make("tr", {}, ...columns.map((column) => {
          const cell = make(column.head ? "th" : "td", column.head ? { scope: "row" } : {}, ...column.cell(row, index));
          if (column.number) cell.classList.add("n");
          if (column.title && !column.head) cell.setAttribute("data-label", column.title);
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
        ? `${begin + 1}–${Math.min(begin + size, found.length)} of ${whole(found.length)} ${noun}`
        : `no ${noun} found`;
    }
    search.addEventListener("input", () => { state.query = search.value; state.page = 0; show(); });
    before.addEventListener("click", () => { state.page -= 1; show(); });
    after.addEventListener("click", () => { state.page += 1; show(); });
    function showAll(all) { state.all = all; state.page = 0; whole_table.setAttribute("aria-pressed", String(all)); show(); }
    whole_table.addEventListener("click", () => showAll(!state.all));
    if (rows.length <= MOST_PRINTED) {
      let shown = false;
      window.addEventListener("beforeprint", () => { shown = Boolean(state.all); showAll(true); });
      window.addEventListener("afterprint", () => showAll(shown));
    }
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
  function story(row) {
    const told = row[STORY];
    const facts = [`${whole(told[AGREEING])} of ${whole(row[LABELS])} labels equal the label found for their item`];
    if (told[SECONDS] !== null) facts.push(`${told[SECONDS].toFixed(1)} s per label (median)`);
    if (told[EARLY] !== null) facts.push(`first half of the work ${percent(told[EARLY])}, second half ${percent(told[LATE])}`);
    const parts = [make("p", {}, facts.join("; ") + ".")];
    if (told[EXAMPLES].length) {
      parts.push(make("h3", {}, "Labels that contradict the most certain ones"), make("ul", { class: "mistakes" },
        ...told[EXAMPLES].map(([item, given, found]) => make("li", {}, named(item), ": said ", named(data.classes[given]), ", found ", named(data.classes[found])))));
    }
    return parts;
  }
  function content([column, kind, value]) {
    const part = make("div", {}, make("small", {}, column));
    if (kind === "image") part.append(make("img", { src: value, alt: column }));
    else if (kind === "link" && value.slice(0, 4).toLowerCase() === "http") part.append(make("a", { href: value, target: "_blank", rel: "noopener noreferrer" }, value));
    else part.append(make("p", {}, value));
    return part;
  }
  function openItem(row) {
    const parts = [make("div", { class: "shown" }, ...row[SHOWN].map(content))];
    parts.push(make("p", {}, "Label found: ", named(row[1]), row[2] === null ? "" : `, confidence ${percent(row[2], 1)}`, ". ", row[5].join("; "), "."));
    if (row[WHO].length) {
      parts.push(make("h3", {}, "Who said what"), make("ul", { class: "mistakes" },
        ...row[WHO].map(([person, label]) => make("li", {}, named(label), " by ", named(person)))));
    }
    open(row[0], parts);
  }
  function open(title, parts) {
    document.getElementById("detail-h").replaceChildren(named(title));
    document.getElementById("detail-body").replaceChildren(...parts);
    dialog.showModal();
  }
  function download(name, text, type) {
    const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
  // A quote keeps spreadsheets from running a cell as a formula.
  const cell = (text) => '"' + String(text).replace(/^(?=['\s]*[=+\-@])/, "'").replaceAll('"', '""') + '"';
  function itemsCsv() {
    const header = ["item", "label", "confidence", "second choice", "labels given", "reasons"];
    const rows = data.items.map((row) => [row[0], row[1], row[2] ?? "", row[3], row[4], row[5].join("; ")]);
    return [header, ...rows].map((row) => row.map(cell).join(",")).join("\n") + "\n";
  }
  function itemsTasks() {
    return JSON.stringify(data.items.map((row) => ({
      data: { item: row[0], ...Object.fromEntries(row[SHOWN].filter((one) => one[1] !== "image").map(([column, , value]) => [column, value])), reasons: row[5].join("; ") },
      predictions: [{ model_version: data.model, score: row[2], result: [{ from_name: "label", to_name: "shown", type: "choices", value: { choices: [row[1]] } }] }],
    })), null, 1);
  }
  for (const [id, act] of [["items-csv", () => download("items-to-review.csv", itemsCsv(), "text/csv")], ["items-tasks", () => download("items-to-review.json", itemsTasks(), "application/json")]]) {
    const button = document.getElementById(id);
    if (!button) continue;
    button.hidden = false;
    button.addEventListener("click", act);
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
    if (row[STORY]) parts.push(...story(row));
    if (matrix) {
      parts.push(make("p", { class: "aside" }, "Each row is a true class; the numbers are the percentages of its labels. Blue is right, orange is wrong."));
      parts.push(heatMap(matrix));
    }
    if (mistakes && mistakes.length) {
      parts.push(make("h3", {}, "Largest confusions"), make("ul", { class: "mistakes" }, ...mistakes.map(([truth, given, value]) =>
        make("li", {}, make("b", {}, `${value}%`), " of ", named(data.classes[truth]), " are labelled ", named(data.classes[given])))));
    }
    open(row[NAME], parts);
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
