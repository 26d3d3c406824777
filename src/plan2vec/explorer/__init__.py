"""The interactive page of a fitted run: map, plans, neighbours, suspicious closures. Needs the extra [explore].

session.py is the model and what the page asks of it; the other modules say in their first line what they do. In
assets/, explorer.js draws lines over the points and takes clicks, linked.js the highlighted frame and the timeline."""
