// What explorer_speed.py does in the page of the explorer.
({
    onPaint() {  // the mark is set when every point is drawn, not when it was asked for
        const mark = performance.mark.bind(performance);
        performance.mark = (name, options) => {
            for (const canvas of name === "explorer-paint" ? document.querySelectorAll("#map canvas.gl-canvas") : []) {
                const gl = canvas.getContext("webgl");
                gl?.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));  // waits until it is
            }
            return mark(name, options);
        };
    },
    painted() {
        return performance.getEntriesByName("explorer-paint")[0]?.startTime;
    },
    clickToPlan() {
        const last = (name) => performance.getEntriesByName(name).at(-1);
        const [click, plan] = [last("explorer-click"), last("explorer-plan")];
        return click && plan && plan.startTime > click.startTime ? plan.startTime - click.startTime : null;
    },
    placeOf([name, number]) {
        const plot = document.querySelector(`#${name} .js-plotly-plot`);
        const { xaxis, yaxis } = plot._fullLayout, { x, y } = plot._fullData[0], box = plot.getBoundingClientRect();
        return [box.left + xaxis._offset + xaxis.d2p(x[number]), box.top + yaxis._offset + yaxis.d2p(y[number])];
    },
})
