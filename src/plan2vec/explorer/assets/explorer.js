// Over the points, which take long to draw, lies a canvas: plans, touched frames and markers change without touching them.
// Also here: the frame under the pointer, clicks, the address.
(function () {
  "use strict";
  const PLOTS = ["room", "map"]; // the map in 3-d takes longest
  const shown = { plan: null, others: [], touched: new Int32Array(0), show: [] };
  const LARGEST_FILE = 8e6; // bytes of an uploaded image, as images.py has it
  const [BLACK, ORANGE] = ["#000", "#D55E00"];
  let next = "start"; // what a click sets
  let painted = false;

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
  }

  function drawFlat(plot, canvas) {
    const { start, goal } = shown.plan || {};
    const isEmpty = (start ?? null) === null && (goal ?? null) === null;
    if (isEmpty && !canvas.dataset.nodes) return; // nothing to draw, and nothing to wipe out
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
    const at = (k) => [xaxis._offset + xaxis.d2p(x[k]), yaxis._offset + yaxis.d2p(y[k])];
    drawTouched(pen, at, xaxis, yaxis);
    if (shown.show.includes("others")) for (const one of shown.others) drawLine(pen, at, one.nodes, one.color, 2, [6, 4]);
    if (shown.plan && shown.plan.nodes) drawLine(pen, at, shown.plan.nodes, BLACK, 3, []);
    drawEnds(pen, at);
    canvas.dataset.nodes = shown.plan && shown.plan.nodes ? shown.plan.nodes.length : 0;
    canvas.dataset.touched = shown.show.includes("touched") ? shown.touched.length : 0;
  }

  function drawTouched(pen, at, xaxis, yaxis) {
    if (!shown.show.includes("touched") || !shown.touched.length) return;
    pen.fillStyle = "rgba(255,255,255,0.62)"; // the other frames step back
    pen.fillRect(xaxis._offset, yaxis._offset, xaxis._length, yaxis._length);
    pen.fillStyle = ORANGE;
    const size = shown.touched.length > 20000 ? 2 : 3;
    for (const k of shown.touched) {
      const [left, top] = at(k);
      pen.fillRect(left - size / 2, top - size / 2, size, size);
    }
  }

  function drawLine(pen, at, nodes, color, width, dashes) {
    const trace = () => {
      pen.beginPath();
      nodes.forEach((k, place) => (place ? pen.lineTo(...at(k)) : pen.moveTo(...at(k))));
      pen.stroke();
    };
    pen.lineJoin = "round";
    pen.setLineDash(dashes);
    pen.strokeStyle = "#fff";
    pen.lineWidth = width + 3;
    trace();
    pen.strokeStyle = color;
    pen.lineWidth = width;
    trace();
    pen.setLineDash([]);
  }

  function drawEnds(pen, at) {
    const plan = shown.plan || {};
    for (const [number, letter] of [[plan.start, "S"], [plan.goal, "G"]]) {
      if (number === null || number === undefined) continue;
      const [left, top] = at(number);
      pen.beginPath();
      pen.arc(left, top, 10, 0, 2 * Math.PI);
      pen.fillStyle = letter === "S" ? "#fff" : "#000";
      pen.fill();
      pen.lineWidth = 2;
      pen.strokeStyle = letter === "S" ? "#000" : "#fff";
      pen.stroke();
      pen.fillStyle = letter === "S" ? "#000" : "#fff";
      pen.font = "bold 13px system-ui, sans-serif";
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(letter, left, top + 0.5);
    }
  }

  function drawSpatial(plot, canvas) {
    // in 3-d the plan and the touched frames are traces 1 and 2; their key tells whether they are up to date
    canvas.width = 0;
    if (plot.data.length < 3) return;
    const plan = shown.plan || {};
    const nodes = plan.nodes || [plan.start, plan.goal].filter((k) => k !== null && k !== undefined);
    const touched = shown.show.includes("touched") ? shown.touched : new Int32Array(0);
    const key = `${nodes.join(" ")}|${touched.length}`;
    canvas.dataset.nodes = plan.nodes ? plan.nodes.length : 0;
    if (plot.data[1].meta === key) return;
    const points = plot._fullData[0];
    const pick = (axis, numbers) => Array.from(numbers, (k) => points[axis][k]);
    const along = (axis) => [pick(axis, nodes), pick(axis, touched)];
    window.Plotly.restyle(plot, { x: along("x"), y: along("y"), z: along("z"), meta: [key, key] }, [1, 2]);
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
    plot.on("plotly_relayout", redraw);
    plot.on("plotly_hover", showTip);
    plot.on("plotly_unhover", () => (document.getElementById("tip").style.display = "none"));
    plot.on("plotly_click", choose);
    redraw();
  }

  function choose(event) {
    const point = event.points[0];
    if (point.curveNumber !== 0) return;
    performance.mark("explorer-click", { startTime: event.event.timeStamp });
    const now = next;
    next = now === "start" ? "goal" : "start"; // at once, for a quick second click
    set(now, { value: String(point.pointNumber) });
    set("next", { value: next });
  }

  function showTip(event) {
    const point = event.points[0];
    if (point.curveNumber !== 0) return;
    const tip = document.getElementById("tip");
    document.getElementById("tip-image").src = `/frame/${point.pointNumber}.png`;
    document.getElementById("tip-text").textContent = `frame ${point.pointNumber}`;
    const { clientX, clientY } = event.event;
    tip.style.display = "block";
    tip.style.left = `${clientX + 140 > window.innerWidth ? clientX - 132 : clientX + 16}px`;
    tip.style.top = `${Math.min(clientY + 12, window.innerHeight - 150)}px`;
  }

  // ------------------------------------------------------------------------------------------------ called by Dash

  const numbersOf = (text) => new Int32Array(Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer);

  window.dash_clientside = window.dash_clientside || {};
  window.dash_clientside.explorer = {
    // two functions, because Dash would make one wait for both: the plan is there long before the comparison
    plan(plan) {
      shown.plan = plan;
      shown.touched = new Int32Array(0);
      shown.others = [];
      redraw();
      if (plan && plan.start !== null && plan.goal !== null) markDrawn("explorer-plan"); // no path is an answer too
      return window.dash_clientside.no_update;
    },
    touched(touched, show) {
      const plan = shown.plan;
      const fresh = touched && plan && touched.start === plan.start && touched.goal === plan.goal && touched.method === plan.method;
      shown.show = show || [];
      shown.touched = fresh ? numbersOf(touched.touched) : new Int32Array(0);
      shown.others = fresh ? touched.others : [];
      redraw();
      return window.dash_clientside.no_update;
    },
    address(start, goal, method, color, axes) {
      const kept = Object.entries({ start, goal, method, color, axes }).filter(([, value]) => value);
      window.history.replaceState(null, "", `?${new URLSearchParams(kept)}`);
      return window.dash_clientside.no_update;
    },
    valued(color, goal) {
      return color === "distance" ? goal || "" : window.dash_clientside.no_update;
    },
    near(panel, of, start, goal) {
      return panel === "neighbours" ? { frame: of === "goal" ? goal : start, goal } : window.dash_clientside.no_update;
    },
    next(value) {
      next = value || "start";
      return window.dash_clientside.no_update;
    },
    panel(chosen) {
      return ["methods", "neighbours", "closures"].map((name) => ({ display: name === chosen ? "block" : "none" }));
    },
  };

  function refuseLarge(event, files) {
    const [file] = files || [];
    if (!file || file.size <= LARGEST_FILE || !event.target.closest("#upload-start, #upload-goal")) return;
    event.preventDefault(); // else the browser would show a dropped file
    event.stopImmediatePropagation();
    set("message", { children: `${file.name} has ${(file.size / 1e6).toFixed(1)} MB; an image may have 8 MB. Make it smaller.` });
    if (event.target.type === "file") event.target.value = ""; // else the same file could not be chosen again
  }
  document.addEventListener("change", (event) => event.target.type === "file" && refuseLarge(event, event.target.files), true);
  document.addEventListener("drop", (event) => refuseLarge(event, event.dataTransfer && event.dataTransfer.files), true);

  const waiting = setInterval(() => {
    const plots = PLOTS.map(plotOf).filter((plot) => plot && plot._fullLayout && plot.on);
    plots.forEach(prepare);
    if (plots.length === document.querySelectorAll(".plot").length && plots.length) clearInterval(waiting);
  }, 20);
})();
