"""The interactive page of a fitted run: map, plans, neighbours, suspicious closures. Needs the extra [explore].

session.py    the model and what the page asks of it    page.py        what stands where, and what fills it
charts.py     frames as points, colours                 callbacks.py   what changes when
server.py     limits, serving, waiting                  exports.py     images in and out, plans as figure and film
underway.py   the page while `fit` still runs
assets/       explorer.js: lines over the points, clicking; linked.js: the highlighted frame, timeline; style
"""
