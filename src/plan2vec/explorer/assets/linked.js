// One highlighted frame everywhere: map, true positions, strip, lists, timeline. Episodes as tracks with a scrubber, the
// closures to look at as lines, the legend, the zoom in the address.
(function () {
  "use strict";
  const { PLOTS, KINDS, DASHES, colors, shown, hooks, inks, plotOf, set, penOn, drawLine, setTraces, hopsByKind, writeAddress } = window.plan2vec;
  const TRAIL = 30; // frames
  const PER_SECOND = 10; // frames that play shows
  const DOUBTFUL = 0.9; // confidence, as BELIEVED in hops.py
  const OVERVIEW = 14; // pixels of the row that shows the whole recording
  const episodes = { labels: [], counts: [], first: [], findings: [] };
  const byId = (id) => document.getElementById(id);
  let here = 0; // the highlighted frame
  let touchedHere = false; // whether a person has highlighted one; until then it is the start
  let isolated = null; // number of the episode that is shown alone
  let pair = null; // the highlighted closure, "first-second"
  let distances = { goal: null, values: null }; // learned steps from every frame to the goal
  let playing = null;
  let colored = "";

  // ------------------------------------------------------------------------------------------------ frames and episodes

  function episodeOf(frame) {
    let [low, high] = [0, episodes.first.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (episodes.first[middle] <= frame) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  const lastOf = (episode) => episodes.first[episode] + episodes.counts[episode] - 1;
  const numFrames = () => (episodes.first.length ? lastOf(episodes.first.length - 1) + 1 : 0);
  const nameOf = (frame) => `${episodes.labels[episodeOf(frame)]}:${frame - episodes.first[episodeOf(frame)]}`;
  const togo = (frame) => (distances.values ? `, ${distances.values[frame].toFixed(1)} steps to the goal` : "");
  const wordsOf = (frame) => `frame ${frame}, ${nameOf(frame)}${togo(frame)}`;

  async function askDistances(plan) {
    const goal = plan ? plan.goal ?? null : null;
    if (!touchedHere && plan && (plan.start ?? null) !== null) highlight(plan.start);
    if (goal === distances.goal) return;
    distances = { goal, values: null };
    if (goal !== null) {
      const answer = await window.fetch(`/distances/${goal}`).catch(() => null);
      if (!answer || !answer.ok || distances.goal !== goal) return;
      distances.values = new Float32Array(await answer.arrayBuffer());
      distances.most = distances.values.reduce((high, value) => Math.max(high, value), 1e-6);
    }
    drawMoving();
  }

  // ------------------------------------------------------------------------------------------------ the highlighted frame

  let waiting = false;
  function highlight(frame) {
    const last = numFrames() - 1;
    if (last < 0) return;
    here = Math.max(0, Math.min(last, frame));
    if (waiting) return;
    waiting = true; // at most once per picture of the screen
    requestAnimationFrame(() => {
      waiting = false;
      drawMoving();
    });
  }

  function byPerson(frame) {
    touchedHere = true;
    highlight(frame);
  }

  function drawMoving() {
    if (!episodes.first.length || !byId("now-image")) return;
    markPictures();
    const now = byId("now");
    if (now.value !== String(here)) {
      now.value = String(here);
      byId("now-image").src = `/frame/${here}.png`;
    }
    byId("now-words").textContent = wordsOf(here);
    const scrubber = byId("scrubber");
    scrubber.value = here;
    scrubber.setAttribute("aria-valuetext", wordsOf(here));
    for (const name of PLOTS) drawCursor(name);
    drawTimeline();
    drawLegend();
  }

  function markPictures() {
    for (const one of document.querySelectorAll("button.frame.here")) if (one.value !== String(here)) one.classList.remove("here");
    for (const one of document.querySelectorAll(`button.frame[value="${here}"]`)) one.classList.add("here");
    for (const one of document.querySelectorAll(".pair")) one.classList.toggle("here", one.dataset.pair === pair);
  }

  const isDoubtful = ([, , sure]) => sure !== null && sure < DOUBTFUL;
  const drawnLines = () => (isolated === null ? shown.lines : shown.lines.filter(([first, second]) => [first, second].map(episodeOf).includes(isolated)));

  function trail() {
    const episode = episodeOf(here);
    const first = isolated === episode ? episodes.first[episode] : Math.max(episodes.first[episode], here - TRAIL);
    const last = isolated === episode ? lastOf(episode) : here;
    return Array.from({ length: last - first + 1 }, (_, k) => first + k);
  }

  function drawCursor(name) {
    const plot = plotOf(name);
    if (!plot || !plot._fullData || !plot._fullData.length) return;
    const canvas = byId(`${name}-cursor`);
    canvas.dataset.frame = here;
    canvas.dataset.lines = drawnLines().length;
    canvas.dataset.isolated = isolated ?? "";
    canvas.dataset.pair = pair || "";
    if (plot._fullLayout.scene) return drawSpatialCursor(plot, canvas);
    const [pen, at] = penOn(plot, canvas);
    const { xaxis, yaxis } = plot._fullLayout;
    if (isolated !== null) {
      pen.fillStyle = inks()[2]; // the other episodes step back
      pen.fillRect(xaxis._offset, yaxis._offset, xaxis._length, yaxis._length);
    }
    for (const line of drawnLines()) {
      const [[first, second], doubtful] = [line, isDoubtful(line)];
      const chosen = pair === `${first}-${second}`;
      pen.globalAlpha = chosen ? 1 : 0.55; // a plan below them stays visible
      drawLine(pen, at, [first, second], doubtful ? colors.red() : colors.blue(), chosen ? 5 : 1.5, doubtful ? DASHES[2] : DASHES[1], chosen);
    }
    pen.globalAlpha = 1;
    if (touchedHere) drawLine(pen, at, trail(), colors.PURPLE, 2, [], false);
    pen.fillStyle = inks()[0];
    if (isolated !== null) for (const [left, top] of trail().map(at)) pen.fillRect(left - 2, top - 2, 4, 4);
    drawRing(pen, at(here));
  }

  function drawRing(pen, [left, top]) {
    for (const [color, width] of [[inks()[1], 6], [colors.PURPLE, 3]]) {
      pen.beginPath();
      pen.arc(left, top, 8, 0, 2 * Math.PI);
      pen.strokeStyle = color;
      pen.lineWidth = width;
      pen.stroke();
    }
  }

  function drawSpatialCursor(plot, canvas) {
    canvas.width = 0;
    if (plot.data.length < 9) return;
    const lines = drawnLines().flatMap(([first, second]) => [first, second, null]);
    const way = touchedHere ? trail() : [here];
    const key = `${here}|${way.length}|${lines.length}|${pair}`;
    if (plot.data[7].meta === key) return;
    const sizes = { "marker.size": [way.map((k) => (k === here ? 9 : 1)), 1], meta: key };
    setTraces(plot, [way, lines], [colors.PURPLE, colors.blue()], [7, 8], sizes);
  }

  // ------------------------------------------------------------------------------------------------ tip

  function showTip(frame, { clientX, clientY }) {
    const tip = byId("tip");
    byId("tip-image").src = `/frame/${frame}.png`;
    byId("tip-text").textContent = wordsOf(frame);
    tip.style.display = "block";
    tip.style.left = `${clientX + 170 > window.innerWidth ? Math.max(0, clientX - 160) : clientX + 16}px`;
    tip.style.top = `${Math.min(clientY + 12, window.innerHeight - 170)}px`;
  }

  const hideTip = () => (byId("tip").style.display = "none");

  function overPicture(event) {
    const picture = event.target.closest?.("button.frame");
    if (picture && picture.value !== "") {
      byPerson(Number(picture.value));
      if (event.type === "mouseover") showTip(Number(picture.value), event);
    } else if (event.type === "mouseover" && !event.target.closest?.(".plot")) hideTip();
    const listed = event.target.closest?.(".pair");
    setPair(listed ? listed.dataset.pair : null);
  }

  function setPair(chosen) {
    if (chosen === pair) return;
    pair = chosen;
    highlight(here);
  }

  function overPlot(event) {
    // the closure whose line lies under the pointer, in either plot
    const frame = event.target.closest?.(".plot");
    if (!frame || !shown.lines.length) return;
    const plot = frame.querySelector(".js-plotly-plot");
    if (!plot || !plot._fullLayout || plot._fullLayout.scene) return;
    const { xaxis, yaxis } = plot._fullLayout;
    const { x, y } = plot._fullData[0];
    const box = plot.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left - xaxis._offset, event.clientY - box.top - yaxis._offset];
    let [nearest, best] = [null, 6]; // pixels
    for (const [first, second] of drawnLines()) {
      const away = distanceTo(left, top, xaxis.d2p(x[first]), yaxis.d2p(y[first]), xaxis.d2p(x[second]), yaxis.d2p(y[second]));
      if (away < best) [nearest, best] = [`${first}-${second}`, away];
    }
    if (nearest && nearest !== pair) document.querySelector(`.pair[data-pair="${nearest}"]`)?.scrollIntoView({ block: "nearest" });
    setPair(nearest);
  }

  function distanceTo(left, top, x0, y0, x1, y1) {
    const length = (x1 - x0) ** 2 + (y1 - y0) ** 2;
    const along = length ? Math.max(0, Math.min(1, ((left - x0) * (x1 - x0) + (top - y0) * (y1 - y0)) / length)) : 0;
    return Math.hypot(left - x0 - along * (x1 - x0), top - y0 - along * (y1 - y0));
  }

  // ------------------------------------------------------------------------------------------------ timeline

  function shownEpisodes() {
    if (isolated !== null) return [isolated];
    const { start, goal } = shown.plan || {};
    const frames = [here, start, goal].filter((frame) => (frame ?? null) !== null);
    return [...new Set(frames.map(episodeOf))];
  }

  function drawTimeline() {
    const canvas = byId("timeline");
    const tracks = shownEpisodes();
    nameTracks(tracks);
    const [width, height] = [canvas.parentElement.clientWidth, canvas.clientHeight];
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, width * ratio);
    canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    drawOverview(pen, width);
    const each = (height - OVERVIEW - 2) / tracks.length;
    tracks.forEach((episode, k) => drawTrack(pen, episode, OVERVIEW + 2 + k * each, width, each - 2));
    canvas.dataset.tracks = tracks.join(" ");
    canvas.dataset.curves = distances.values ? tracks.length : 0;
    canvas.dataset.findings = episodes.findings.length;
  }

  function nameTracks(tracks) {
    // buttons beside the tracks: they isolate an episode, or bring the others back
    const place = byId("tracks");
    if (place.dataset.tracks === `${tracks}|${isolated}`) return;
    place.dataset.tracks = `${tracks}|${isolated}`;
    place.style.paddingTop = `${byId("timeline").offsetTop + OVERVIEW + 2}px`;
    const buttons = tracks.map((episode) => {
      const button = Object.assign(document.createElement("button"), { className: "track", textContent: `sequence ${episodes.labels[episode]}` });
      button.setAttribute("aria-pressed", String(isolated === episode));
      button.title = isolated === episode ? "show all episodes again" : "show this episode alone";
      button.onclick = () => isolate(isolated === episode ? null : episode);
      return button;
    });
    place.replaceChildren(...buttons);
  }

  function isolate(episode) {
    isolated = episode;
    touchedHere = true;
    if (episode !== null && episodeOf(here) !== episode) here = episodes.first[episode];
    window.plan2vec.redraw();
  }

  function drawOverview(pen, width) {
    const scale = width / Math.max(1, numFrames());
    episodes.first.forEach((first, k) => {
      if (episodes.first.length > width / 2 && k % Math.ceil(episodes.first.length / width)) return;
      pen.fillStyle = k % 2 ? "rgba(128,128,128,0.55)" : "rgba(128,128,128,0.3)";
      pen.fillRect(first * scale, 2, Math.max(1, episodes.counts[k] * scale), OVERVIEW - 4);
    });
    for (const found of episodes.findings) drawFinding(pen, found.first * scale, Math.max(3, (found.last - found.first + 1) * scale), 0, OVERVIEW);
    for (const frame of [shown.plan?.start, shown.plan?.goal]) if ((frame ?? null) !== null) drawMark(pen, frame * scale, 0, OVERVIEW, inks()[0], 1.5);
    drawMark(pen, (here + 0.5) * scale, 0, OVERVIEW, colors.PURPLE, 3);
  }

  function drawTrack(pen, episode, top, width, height) {
    const [first, count] = [episodes.first[episode], episodes.counts[episode]];
    const across = (frame) => ((frame - first) / Math.max(1, count - 1)) * (width - 8) + 4;
    pen.fillStyle = "rgba(128,128,128,0.15)";
    pen.fillRect(0, top, width, height);
    if (distances.values) {
      const values = distances.values.subarray(first, first + count);
      pen.beginPath();
      values.forEach((value, k) => pen.lineTo(across(first + k), top + height - 2 - (value / distances.most) * (height - 4)));
      pen.strokeStyle = colors.blue();
      pen.lineWidth = 2;
      pen.stroke();
    }
    for (const found of episodes.findings)
      if (found.first <= lastOf(episode) && found.last >= first)
        drawFinding(pen, across(Math.max(first, found.first)), Math.max(3, across(Math.min(lastOf(episode), found.last)) - across(Math.max(first, found.first))), top, height);
    for (const [frame, letter] of [[shown.plan?.start, "S"], [shown.plan?.goal, "G"]]) {
      if ((frame ?? null) === null || episodeOf(frame) !== episode) continue;
      drawMark(pen, across(frame), top, height, inks()[0], 1.5);
      pen.fillStyle = inks()[0];
      pen.font = "bold 11px system-ui, sans-serif";
      pen.fillText(letter, across(frame) + (across(frame) + 14 < width ? 3 : -12), top + 11);
    }
    if (episodeOf(here) === episode) drawMark(pen, across(here), top, height, colors.PURPLE, 3);
  }

  function drawFinding(pen, left, wide, top, height) {
    pen.fillStyle = "rgba(208,2,27,0.28)";
    pen.fillRect(left, top, wide, height);
    pen.fillStyle = colors.red();
    pen.fillRect(left, top, wide, 3);
  }

  function drawMark(pen, left, top, height, color, width) {
    pen.fillStyle = color;
    pen.fillRect(left - width / 2, top, width, height);
  }

  function frameAt(event) {
    const [canvas, tracks] = [byId("timeline"), shownEpisodes()];
    const box = canvas.getBoundingClientRect();
    const [left, top] = [event.clientX - box.left, event.clientY - box.top];
    if (top <= OVERVIEW) return Math.floor((left / box.width) * numFrames());
    const each = (box.height - OVERVIEW - 2) / tracks.length;
    const episode = tracks[Math.max(0, Math.min(tracks.length - 1, Math.floor((top - OVERVIEW - 2) / each)))];
    const along = Math.max(0, Math.min(1, (left - 4) / Math.max(1, box.width - 8)));
    return Math.round(episodes.first[episode] + along * (episodes.counts[episode] - 1));
  }

  function overTimeline(event) {
    const frame = frameAt(event);
    const found = episodes.findings.find((one) => one.first <= frame && frame <= one.last);
    byId("timeline").title = found ? `${found.kind}: ${found.words}` : "";
    if (event.buttons & 1) byPerson(frame);
  }

  function play() {
    const button = byId("play");
    if (playing) clearInterval(playing);
    playing = playing ? null : setInterval(() => (here < lastOf(episodeOf(here)) ? byPerson(here + 1) : play()), 1000 / PER_SECOND);
    if (playing && here === lastOf(episodeOf(here))) byPerson(episodes.first[episodeOf(here)]); // from its beginning
    touchedHere = true;
    button.textContent = playing ? "pause" : "play";
  }

  function onKey(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.target.closest?.("input, textarea, select, [contenteditable]")) return; // they have arrows of their own
    event.preventDefault();
    byPerson(here + step);
  }

  // ------------------------------------------------------------------------------------------------ legend

  function drawLegend() {
    const kinds = hopsByKind();
    const flat = !plotOf("map")?._fullLayout?.scene;
    const words = ["recorded", "closure", "doubtful closure"];
    const items = KINDS.map((_, k) => [kinds[k].length, k === 2 ? colors.red() : inks()[0], ["solid", "dashed", "dotted"][k], words[k]]);
    if (!kinds[2].length) items.push([drawnLines().some(isDoubtful), colors.red(), "dotted", words[2]]);
    items.push([drawnLines().some((line) => !isDoubtful(line)), colors.blue(), "dashed", "closure listed"]);
    items.push([shown.plan?.before?.nodes, colors.GHOST, "dotted", "way before"]);
    if (flat && shown.show.includes("others")) for (const one of shown.others) items.push([1, one.color, "dashed", one.method]);
    items.push([shown.show.includes("touched") && shown.touched.length, colors.ORANGE, "dot", "touched"]);
    items.push([1, colors.PURPLE, "ring", touchedHere ? "here, and trail" : "here"]);
    for (const [label, color] of sequenceColors()) items.push([1, color, "dot", `sequence ${label}`]);
    const there = items.filter(([count]) => count);
    const key = JSON.stringify(there);
    const legend = byId("legend");
    if (legend.dataset.key === key) return;
    legend.dataset.key = key;
    legend.replaceChildren(...there.map(([, color, look, words]) => {
      const item = document.createElement("span");
      const sign = Object.assign(document.createElement("i"), { className: look });
      sign.style.color = color;
      item.append(sign, words);
      return item;
    }));
  }

  function sequenceColors() {
    const scale = plotOf("map")?.data?.[0]?.marker?.colorscale;
    if (colored !== "sequence" || !Array.isArray(scale) || episodes.labels.length > 8) return [];
    const order = [...episodes.labels].sort((a, b) => a - b); // colours follow the labels
    return order.map((label, k) => [label, scale[2 * k][1]]);
  }

  // ------------------------------------------------------------------------------------------------ zoom in the address

  let zoomed = false;
  function readZoom() {
    // once, when the map is there: the part of it that the link showed
    if (zoomed || !plotOf("map")?._fullLayout) return;
    zoomed = true;
    const numbers = (new URLSearchParams(window.location.search).get("zoom") || "").split(",").map(Number);
    if (numbers.length !== 4 || !numbers.every(Number.isFinite) || plotOf("map")._fullLayout.scene) return;
    window.Plotly.relayout(plotOf("map"), { "xaxis.range": numbers.slice(0, 2), "yaxis.range": numbers.slice(2) });
  }

  function writeZoom(plot) {
    if (plot !== plotOf("map") || plot._fullLayout.scene || !shown.view.axes) return;
    const { xaxis, yaxis } = plot._fullLayout;
    const isWhole = xaxis.autorange || yaxis.autorange;
    shown.view.zoom = isWhole ? null : [...xaxis.range, ...yaxis.range].map((value) => Number(value.toPrecision(5))).join(",");
    writeAddress({}, false);
  }

  // ------------------------------------------------------------------------------------------------ beginning

  Object.assign(window.dash_clientside.explorer, {
    episodes(found, color) {
      colored = color;
      if (!found) return;
      let first = 0;
      Object.assign(episodes, found, { first: found.counts.map((count) => (first += count) - count) });
      makeScrubber();
      drawMoving();
    },
  });

  function makeScrubber() {
    if (byId("scrubber") || !byId("scrubber-place")) return;
    const scrubber = Object.assign(document.createElement("input"), { id: "scrubber", type: "range", min: 0, max: numFrames() - 1, value: 0 });
    scrubber.setAttribute("aria-label", "highlighted frame");
    scrubber.addEventListener("input", () => byPerson(Number(scrubber.value)));
    byId("scrubber-place").append(scrubber);
    const canvas = byId("timeline");
    canvas.addEventListener("mousedown", (event) => byPerson(frameAt(event)));
    canvas.addEventListener("mousemove", overTimeline);
  }

  hooks.drawn.push(drawMoving, readZoom);
  hooks.moved.push(drawMoving);
  hooks.hovered.push((frame, event) => { byPerson(frame); showTip(frame, event); });
  hooks.left.push(hideTip);
  hooks.zoomed.push(writeZoom);
  hooks.plan.push(askDistances);
  document.addEventListener("keydown", onKey);
  document.addEventListener("mouseover", overPicture);
  document.addEventListener("focusin", overPicture);
  document.addEventListener("mousemove", overPlot);
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button");
    if (button?.id === "play") play();
    if (button?.id === "show-closures") set("panel", { value: "closures" });
    if (button?.classList.contains("set")) set(button.value, { value: String(here) });
  });
  window.addEventListener("resize", () => highlight(here));
  const seen = setInterval(() => {
    // the picture of the verdict is drawn by the server while the map is already there
    if (!performance.getEntriesByName("explorer-paint").length || !byId("verdict-image")) return;
    clearInterval(seen);
    byId("verdict-image").src = "/verdict.png";
  }, 100);
})();
