// Over the points, which take long to draw, lie two canvases: one for plans, touched frames and markers, one for what
// moves (linked.js). Also here: clicks, the address, what a screen reader is told, a server that is gone.
window.plan2vec = (function () {
  "use strict";
  const PLOTS = ["room", "map"]; // the map in 3-d takes longest
  const shown = { plan: null, others: [], touched: new Int32Array(0), show: [], lines: [], panel: "methods", view: {} };
  const LARGEST_FILE = 8e6; // bytes of an uploaded image, as images.py has it
  const [ORANGE, GHOST, PURPLE] = ["#D55E00", "#8a8a8a", "#CC79A7"];
  const KINDS = ["recorded", "closure", "doubtful"]; // hops of a plan: solid, dashed, dotted and red
  const DASHES = [[], [9, 5], [2, 5]];
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const inks = () => (dark.matches ? ["#fff", "#161616", "rgba(22,22,22,0.62)"] : ["#000", "#fff", "rgba(255,255,255,0.62)"]);
  const blue = () => (dark.matches ? "#56B4E9" : "#0072B2");
  const red = () => (dark.matches ? "#ff5c6c" : "#d0021b");
  const PICTURE = 34; // pixels of a frame on the map
  const images = new Map(); // frame number to picture
  const onMap = []; // where pictures stand on the map, in pixels
  const hooks = { drawn: [], moved: [], hovered: [], left: [], zoomed: [], plan: [] }; // what linked.js adds
  let next = "start"; // what a click sets
  let painted = false;
  let pointer = { clientX: 0, clientY: 0 }; // Plotly's events in 3-d do not say where
  let hovered = null; // the frame under the pointer
  let pressed = {}; // where the pointer went down, and on which frame
  let judging = null; // the button that was pressed in a list: its list, verdict and place
  const call = (name, ...values) => hooks[name].forEach((one) => one(...values));

  const plotOf = (name) => document.querySelector(`#${name} .js-plotly-plot`);
  const set = (id, props) => window.dash_clientside.set_props(id, props);

  // ------------------------------------------------------------------------------------------------ lines and markers

  function redraw() {
    for (const name of PLOTS) {
      const plot = plotOf(name);
      if (!plot || !plot._fullData || !plot._fullData.length) continue;
      const canvas = document.getElementById(`${name}-overlay`);
      if (plot._fullLayout.scene) drawSpatial(plot, canvas);
      else drawFlat(plot, canvas);
      if (name === "map" && !painted) tellPainted();
    }
    call("drawn");
  }

  function penOn(plot, canvas) {
    // an empty canvas as large as the plot, a pen that stays inside its axes, and where frames lie on it
    const { xaxis, yaxis } = plot._fullLayout;
    const { x, y } = plot._fullData[0];
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [plot.clientWidth, plot.clientHeight];
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    const pen = canvas.getContext("2d", { willReadFrequently: true }); // drawn by the CPU, which has time: the points have the GPU
    pen.scale(ratio, ratio);
    pen.beginPath();
    pen.rect(xaxis._offset, yaxis._offset, xaxis._length, yaxis._length);
    pen.clip();
    return [pen, (k) => [xaxis._offset + xaxis.d2p(x[k]), yaxis._offset + yaxis.d2p(y[k])]];
  }

  function drawFlat(plot, canvas) {
    const pictures = (shown.show.includes("pictures") && plot._fullLayout.meta?.pictures) || [];
    if (!ends().length && !pictures.length && !canvas.dataset.nodes) return; // nothing to draw, and nothing to wipe out
    const [pen, at] = penOn(plot, canvas);
    const { xaxis, yaxis } = plot._fullLayout;
    drawTouched(pen, at, xaxis, yaxis);
    if (pictures.length) onMap.length = 0;
    for (const number of pictures) drawPicture(pen, at(number), number, xaxis._offset + xaxis._length, yaxis._offset);
    if (shown.show.includes("others")) for (const one of shown.others) drawLine(pen, at, one.nodes, one.color, 2, [6, 4]);
    if (shown.plan?.before?.nodes) drawLine(pen, at, shown.plan.before.nodes, GHOST, 3, [1, 5]);
    for (const [kind, pairs] of hopsByKind().entries())
      for (const pair of pairs) drawLine(pen, at, pair, kind === 2 ? red() : inks()[0], kind === 2 ? 4 : 3, DASHES[kind]);
    drawEnds(pen, at);
    canvas.dataset.nodes = shown.plan && shown.plan.nodes ? shown.plan.nodes.length : 0;
    canvas.dataset.before = shown.plan?.before?.nodes ? shown.plan.before.nodes.length : 0;
    canvas.dataset.pictures = pictures.filter((number) => images.get(number)?.naturalWidth).length;
    canvas.dataset.touched = shown.show.includes("touched") ? shown.touched.length : 0;
  }

  function drawPicture(pen, [left, top], number, end, begin) {
    if (!images.has(number)) images.set(number, Object.assign(new Image(), { onload: redraw, src: `/frame/${number}.png` }));
    const image = images.get(number);
    if (!image.complete || !image.naturalWidth) return;
    const scale = PICTURE / Math.max(image.naturalWidth, image.naturalHeight);
    const [width, height] = [image.naturalWidth * scale, image.naturalHeight * scale];
    pen.fillStyle = inks()[0];
    pen.fillRect(left - 2, top - 2, 4, 4); // where it lies; the picture stands beside it
    const x = left + width + 5 > end ? left - width - 4 : left + 4;
    const y = top - height - 5 < begin ? top + 5 : top - height - 4; // below the point where there is no room above
    pen.fillRect(x - 1, y - 1, width + 2, height + 2);
    pen.drawImage(image, x, y, width, height);
    onMap.push({ number, x, y, width, height });
  }

  function drawTouched(pen, at, xaxis, yaxis) {
    if (!shown.show.includes("touched") || !shown.touched.length) return;
    pen.fillStyle = inks()[2]; // the other frames step back
    pen.fillRect(xaxis._offset, yaxis._offset, xaxis._length, yaxis._length);
    pen.fillStyle = ORANGE;
    const size = shown.touched.length > 20000 ? 2 : 3;
    for (const k of shown.touched) {
      const [left, top] = at(k);
      pen.fillRect(left - size / 2, top - size / 2, size, size);
    }
  }

  function drawLine(pen, at, nodes, color, width, dashes, halo = true) {
    const trace = () => {
      pen.beginPath();
      nodes.forEach((k, place) => (place ? pen.lineTo(...at(k)) : pen.moveTo(...at(k))));
      pen.stroke();
    };
    pen.lineJoin = "round";
    pen.setLineDash(halo ? [] : dashes);
    pen.strokeStyle = inks()[1];
    pen.lineWidth = width + 3;
    if (halo) trace();
    pen.setLineDash(dashes);
    pen.strokeStyle = color;
    pen.lineWidth = width;
    trace();
    pen.setLineDash([]);
  }

  function hopsByKind() {
    const { nodes, hops } = shown.plan || {};
    const pairs = (nodes || []).slice(1).map((end, k) => [nodes[k], end]);
    return KINDS.map((kind) => pairs.filter((_, k) => ((hops || [])[k] || KINDS[0]) === kind));
  }

  function ends() {
    const { start, goal } = shown.plan || {};
    return [[start, "S"], [goal, "G"]].filter(([number]) => (number ?? null) !== null);
  }

  function drawEnds(pen, at) {
    for (const [number, letter] of ends()) {
      const [left, top] = at(number);
      const [ink, paper] = letter === "S" ? inks() : inks().slice(0, 2).reverse();
      pen.beginPath();
      pen.arc(left, top, 10, 0, 2 * Math.PI);
      pen.fillStyle = paper;
      pen.fill();
      pen.lineWidth = 2;
      pen.strokeStyle = ink;
      pen.stroke();
      pen.fillStyle = ink;
      pen.font = "bold 13px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(letter, left, top + 0.5);
    }
  }

  function drawSpatial(plot, canvas) {
    // in 3-d touched frames, three kinds of hops, the ends and the way before are traces 1 to 6; their key tells whether
    // they are up to date
    canvas.width = 0;
    if (plot.data.length < 9) return;
    const nodes = (shown.plan && shown.plan.nodes) || [];
    const hops = hopsByKind().map((pairs) => pairs.flatMap((pair) => [...pair, null])); // a gap after each
    const touched = shown.show.includes("touched") ? shown.touched : new Int32Array(0);
    const [numbers, letters] = [0, 1].map((k) => ends().map((end) => end[k]));
    const before = shown.plan?.before?.nodes || [];
    const key = `${nodes.join(" ")}|${touched.length}|${numbers}|${before.join(" ")}|${dark.matches}`;
    canvas.dataset.nodes = nodes.length;
    if (plot.data[1].meta === key) return;
    const colors = [ORANGE, inks()[0], inks()[0], red(), inks()[0], GHOST];
    const looks = { "textfont.color": inks()[0], meta: key, text: [null, null, null, null, letters, null] };
    setTraces(plot, [touched, ...hops, numbers, before], colors, [1, 2, 3, 4, 5, 6], looks);
  }

  function setTraces(plot, numbers, colors, traces, looks) {
    if (pointer.buttons) return; // drawn anew, the plot would lose the drag; the end of a drag draws too
    const points = plot._fullData[0];
    const along = (axis) => numbers.map((some) => Array.from(some, (k) => (k === null ? null : points[axis][k])));
    const all = { x: along("x"), y: along("y"), z: along("z"), "line.color": colors, "marker.color": colors, ...looks };
    window.Plotly.restyle(plot, all, traces);
  }

  // for `plan2vec bench explorer`: the moment when the picture that shows it has been made
  const markDrawn = (name) => requestAnimationFrame(() => setTimeout(() => performance.mark(name)));

  function tellPainted() {
    painted = true;
    markDrawn("explorer-paint");
    requestAnimationFrame(() => setTimeout(() => set("painted", { data: true }))); // the true positions follow
  }

  // ------------------------------------------------------------------------------------------------ pointer

  function prepare(plot) {
    if (plot.dataset.prepared) return;
    plot.dataset.prepared = "yes";
    plot.on("plotly_afterplot", redraw);
    plot.on("plotly_relayouting", redraw);
    plot.on("plotly_relayout", () => { redraw(); call("zoomed", plot); });
    plot.on("plotly_hover", (event) => {
      const point = event.points[0];
      if (point.curveNumber !== 0) return;
      hovered = point.pointNumber;
      call("hovered", hovered, event.event || pointer);
    });
    plot.on("plotly_unhover", () => { hovered = null; call("left"); });
    plot.on("plotly_click", (event) => event.event && choose(event.points[0].pointNumber, event.event.timeStamp));
    redraw();
  }

  function chooseSpatial(event) {
    // in 3-d Plotly passes clicks on only within 5 pixels of a point, but shows the tip much farther off
    if (!event.target.closest("#map .gl-container") || (pressed.frame ?? null) === null) return;
    if (Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < 4) choose(pressed.frame, event.timeStamp);
  }

  function choosePicture(event) {
    // a picture on the map, which is drawn on a canvas, and no point under the pointer
    if (!event.target.closest("#map-place .nsewdrag") || hovered !== null || !shown.show.includes("pictures")) return;
    const box = plotOf("map").getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    const found = onMap.find(({ x, y, width, height }) => x <= left && left <= x + width && y <= top && top <= y + height);
    if (found && Math.hypot(event.clientX - pressed.clientX, event.clientY - pressed.clientY) < 4) choose(found.number, event.timeStamp);
  }

  function choose(number, startTime) {
    performance.mark("explorer-click", { startTime });
    const now = next;
    next = now === "start" ? "goal" : "start"; // at once, for a quick second click
    set(now, { value: String(number) });
  }

  // ------------------------------------------------------------------------------------------------ called by Dash

  const numbersOf = (text) => new Int32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

  let addressed = false; // whether the address was ever written: from then on, Back undoes
  function writeAddress(changes, isStep) {
    const query = new URLSearchParams([...Object.entries({ ...shown.view, ...changes })].filter(([, value]) => value));
    if (`?${query}` === window.location.search) return;
    window.history[isStep && addressed ? "pushState" : "replaceState"](null, "", `?${query}`);
    addressed = true;
  }

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.explorer = {
    asked: () => window.location.search,
    // two functions, because Dash would make one wait for both: the plan is there long before the comparison
    plan(plan) {
      shown.plan = plan;
      shown.touched = new Int32Array(0);
      shown.others = [];
      redraw();
      if (plan && plan.start !== null && plan.goal !== null) markDrawn("explorer-plan"); // no path is an answer too
      call("plan", plan);
    },
    touched(touched, show) {
      const plan = shown.plan;
      const fresh = touched && plan && touched.start === plan.start && touched.goal === plan.goal && touched.method === plan.method;
      shown.show = show || [];
      shown.touched = fresh ? numbersOf(touched.touched) : new Int32Array(0);
      shown.others = fresh ? touched.others : [];
      redraw();
    },
    address(start, goal, method, color, axes, panel) {
      const zoom = shown.view.axes === axes || !shown.view.axes ? new URLSearchParams(window.location.search).get("zoom") : null;
      shown.view = { start, goal, method, color, axes, panel, zoom };
      writeAddress({}, true);
    },
    valued(color, goal) {
      return color === "distance" ? goal || "" : window.dash_clientside.no_update;
    },
    near(panel, of, start, goal, judged) {
      if (judged) shown.revision = judged.revision; // our own: the plan that follows is on its way
      return panel === "neighbours" ? { frame: of === "goal" ? goal : start, goal } : window.dash_clientside.no_update;
    },
    next(value) {
      next = value || "start";
    },
    follow(start, goal) {
      // whoever sets one end, by click, key, image or link, sets the other one next
      const changed = window.dash_clientside.callback_context.triggered.map((one) => one.prop_id);
      if (changed.length > 1) return start && !goal ? "goal" : "start";
      return changed[0] === "start.value" ? (start ? "goal" : "start") : goal ? "start" : "goal";
    },
    listed() {
      const anew = window.dash_clientside.callback_context.triggered.map((one) => one.prop_id.split(".")[0]);
      if (judging && anew.includes(judging.list)) requestAnimationFrame(() => setTimeout(focusNext));
      requestAnimationFrame(() => setTimeout(() => call("moved")));
    },
    lines(lines, panel) {
      shown.lines = (panel === "closures" && lines) || [];
      shown.panel = panel;
      redraw();
    },
    panel(chosen) {
      return ["methods", "neighbours", "closures"].map((name) => ({ display: name === chosen ? "block" : "none" }));
    },
  };
  window.addEventListener("popstate", () => set("asked", { data: window.location.search }));

  function focusNext() {
    // the list was made anew: go on where the pressed button was, else the keyboard would be lost
    if (!judging) return;
    const alike = document.querySelectorAll(`#${judging.list} button.${judging.verdict}`);
    const target = alike[Math.min(judging.place, alike.length - 1)] || document.querySelector(`#${judging.list} button, #panel input:checked`);
    judging = null;
    if (target) target.focus();
  }

  function rememberButton(button, list) {
    const verdict = button.classList[0];
    judging = { list, verdict, place: [...document.querySelectorAll(`#${list} button.${verdict}`)].indexOf(button) };
  }

  // ------------------------------------------------------------------------------------------------ messages, pictures

  const tell = (words) =>
    set("message", { children: { type: "Span", namespace: "dash_html_components", props: { children: words, className: "wrong" } } });

  function forgetMessage(event) {
    if (!event.target.closest("#message") && document.getElementById("message")?.textContent) set("message", { children: "" });
  }

  function banner(words) {
    let lost = document.getElementById("lost");
    if (!lost) {
      lost = Object.assign(document.createElement("div"), { id: "lost", role: "alert" });
      document.body.append(lost);
    }
    lost.hidden = !words;
    lost.textContent = words;
  }

  const ask = window.fetch;
  window.fetch = (...question) => ask(...question).then(
    (answer) => {
      if (answer.status === 403 || answer.status >= 500)
        banner(answer.status === 403 ? "This is another explorer now; open the address that its terminal shows." : "The explorer could not answer; its terminal says why.");
      else banner("");
      return answer;
    },
    (error) => {
      if (error.name !== "AbortError") banner("Lost the explorer; is it still running?");
      throw error;
    },
  );

  let lastRevision = null;
  async function followOthers() {
    // somebody else may have struck closures of this run; asked twice, because an answer of our own may be on its way
    if (document.hidden) return;
    const answer = await window.fetch("/revision").catch(() => null);
    const revision = answer && answer.ok ? Number(await answer.text()) : null;
    if (revision !== null && revision === lastRevision && shown.plan && shown.plan.revision !== revision && shown.revision !== revision) {
      set("judged", { data: { revision } });
      tell("Somebody else judged closures of this run; the plan was made anew.");
    }
    lastRevision = revision;
  }
  setInterval(followOthers, 3000);

  async function savePlan(ending) {
    // the server draws it: map, true positions, plan, strip and caption, or the film with a dot on the map
    const { start, goal, method } = shown.plan || {};
    if ((start ?? null) === null || (goal ?? null) === null) return tell("Set start and goal first: the plan is what is saved.");
    const touched = shown.show.includes("touched") ? { touched: "yes" } : {};
    const asked = new URLSearchParams({ start, goal, method, axes: shown.view.axes || "2-d", ...touched });
    const answer = await window.fetch(`/plan.${ending}?${asked}`).catch(() => null);
    if (!answer) return;
    if (!answer.ok) return tell(await answer.text());
    const href = URL.createObjectURL(await answer.blob());
    Object.assign(document.createElement("a"), { href, download: `plan2vec-${start}-${goal}.${ending}` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 10000);
  }

  function refuseFile(event, files) {
    const [file] = files || [];
    if (!file || !event.target.closest("#upload-start, #upload-goal")) return;
    if (file.size <= LARGEST_FILE && file.type.startsWith("image/")) return;
    event.preventDefault(); // else the browser would show a dropped file
    event.stopImmediatePropagation();
    const large = `${file.name} has ${(file.size / 1e6).toFixed(1)} MB; an image may have 8 MB. Make it smaller.`;
    tell(file.size > LARGEST_FILE ? large : `${file.name} is no image; give a PNG or JPEG, for example.`);
    if (event.target.type === "file") event.target.value = ""; // else the same file could not be chosen again
  }

  function onClick(event) {
    forgetMessage(event);
    chooseSpatial(event);
    choosePicture(event);
    for (const menu of document.querySelectorAll("details.menu[open], #verdict details[open]")) if (!menu.contains(event.target)) menu.open = false;
    const button = event.target.closest("button");
    if (!button) return;
    const list = button.closest("#closures, #strip");
    if (button.classList.contains("frame")) choose(button.value, event.timeStamp);
    else if (list) rememberButton(button, list.id);
    if (!button.classList.contains("save")) return;
    button.closest("details").open = false;
    savePlan(button.value);
  }

  function onChange(event) {
    forgetMessage(event);
    if (event.target.type === "file") refuseFile(event, event.target.files);
  }

  document.addEventListener("click", onClick, true);
  document.addEventListener("mousedown", ({ clientX, clientY }) => (pressed = { clientX, clientY, frame: hovered }), true);
  document.addEventListener("change", onChange, true);
  document.addEventListener("drop", (event) => refuseFile(event, event.dataTransfer && event.dataTransfer.files), true);
  for (const name of ["mousedown", "mousemove", "mouseup"]) document.addEventListener(name, (event) => (pointer = event), true);
  dark.addEventListener("change", redraw);

  function nameGroups() {
    // Dash calls its radio buttons options of a list box without a name
    for (const list of document.querySelectorAll(".dash-options-list")) {
      const name = list.closest("fieldset")?.querySelector("legend")?.textContent || "neighbours of";
      for (const [key, value] of [["role", list.querySelector("[type=radio]") ? "radiogroup" : "group"], ["aria-label", name]])
        if (list.getAttribute(key) !== value) list.setAttribute(key, value);
      for (const label of list.querySelectorAll("label"))
        for (const key of ["role", "aria-selected"]) if (label.hasAttribute(key)) label.removeAttribute(key);
    }
    for (const input of document.querySelectorAll("input[type=file]")) {
      input.setAttribute("aria-label", `image of the ${input.closest("[id]").id.slice(7)}`);
      input.tabIndex = -1; // the button beside it is reached by keyboard
    }
  }

  const waiting = setInterval(() => {
    const plots = PLOTS.map(plotOf).filter((plot) => plot && plot._fullLayout && plot.on);
    plots.forEach(prepare);
    if (plots.length !== document.querySelectorAll(".plot").length || !plots.length) return;
    clearInterval(waiting);
    nameGroups();
    for (const list of document.querySelectorAll(".dash-options-list"))
      new MutationObserver(nameGroups).observe(list, { subtree: true, attributeFilter: ["role", "aria-selected"] });
  }, 20);

  const colors = { ORANGE, GHOST, PURPLE, red, blue };
  return { PLOTS, KINDS, DASHES, colors, shown, hooks, inks, plotOf, set, redraw, penOn, drawLine, setTraces, hopsByKind, writeAddress, onMap };
})();
