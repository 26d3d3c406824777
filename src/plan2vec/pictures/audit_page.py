"""The page of an audit: a table of episodes, worst first, and a strip of frames per finding. It needs nothing else."""

import io
from html import escape

import numpy as np
from PIL import Image

from plan2vec.data import Sequences
from plan2vec.datasets.audit import Audit, lerobot_line
from plan2vec.datasets.findings import Finding
from plan2vec.pictures.figures import is_image
from plan2vec.pictures.films import frame_picture
from plan2vec.pictures.report import html_page, image_inside
from plan2vec.pictures.scene import even_choice

IN_STRIP, AROUND = 8, 2  # frames of a strip; frames shown before and after what was found
HEIGHT, MOST_STRIPS = 112, 150  # pixels of a strip; strips on a page


def audit_page(answer: Audit, sequences: Sequences, against: Sequences | None = None) -> str:
    title, num_found = f"Audit: {answer.source}", sum(bool(row.findings) for row in answer.rows)
    words = f"{num_found} of {len(answer.rows)} episodes have findings. Nothing was deleted. Look before you delete."
    body = [f"<h1>{escape(title)}</h1><p>{escape(words)}</p>"]
    if line := lerobot_line(answer):
        body.append(f"<p>For a copy without the {len(answer.broken)} broken ones:</p><pre>{escape(line)}</pre>")
    body += [*(f'<p class="quiet">{escape(note)}.</p>' for note in answer.notes), _table(answer)]
    for row in answer.rows if is_image(sequences) else ():
        for one in row.findings[: max(0, MOST_STRIPS - len(body))]:
            body.append(_strips(one, sequences, against))
    return html_page(title, "\n".join(body))


def _table(answer: Audit) -> str:
    rows = []
    for row in answer.rows:
        if row.findings:
            kinds = escape(", ".join(dict.fromkeys(one.kind for one in row.findings)))
            rows.append(f'<tr><th scope="row">{row.episode}</th><td class="number">{row.num_frames}</td>'
                        f"<td>{kinds}</td><td>{'<br>'.join(escape(one.words) for one in row.findings)}</td></tr>")
    sound = ", ".join(str(row.episode) for row in sorted(answer.rows, key=lambda row: row.episode) if not row.findings)
    head = "<thead><tr><th>episode</th><th>frames</th><th>kind</th><th>what was found</th></tr></thead>"
    return (f"<h2>Episodes, worst first</h2><table>{head}<tbody>{''.join(rows)}</tbody></table>"
            f'<p class="quiet">Nothing was found in: {escape(sound or "none")}.</p>')


def _strips(finding: Finding, sequences: Sequences, against: Sequences | None) -> str:
    frames = np.flatnonzero(sequences.sequence == finding.episode)
    first = 0 if finding.kind == "wrong-end" else max(0, finding.first - AROUND)
    last = min(len(frames) - 1, finding.last + AROUND)
    shown = first + even_choice(last - first + 1, IN_STRIP)
    strips = [_strip(sequences, frames[shown], f"episode {finding.episode}, frames", shown)]
    if finding.other is not None:
        source = against if finding.kind == "leak" and against is not None else sequences
        theirs = np.flatnonzero(source.sequence == finding.other[0])
        beside = np.clip(shown + finding.other[1] - finding.first, 0, len(theirs) - 1)
        strips.append(_strip(source, theirs[beside], f"episode {finding.other[0]}, frames", beside))
    elif finding.kind in ("wrong-end", "off-map"):
        strips.append(_others(finding, sequences, last / max(1, len(frames) - 1)))
    return f"<h2>Episode {finding.episode}: {escape(finding.kind)}</h2><p>{escape(finding.words)}</p>{''.join(strips)}"


def _others(finding: Finding, sequences: Sequences, share: float) -> str:
    """For comparison: what episodes recorded before and after it show at the same time."""
    first = np.flatnonzero(np.diff(sequences.sequence, prepend=sequences.sequence[0] - 1))
    length, labels = np.diff(first, append=sequences.num_frames), sequences.sequence[first]
    own = int(np.flatnonzero(labels == finding.episode)[0])
    around = np.sort(np.argsort(np.abs(np.arange(len(first)) - own), kind="stable")[1 : IN_STRIP + 1])
    numbers = first[around] + np.round(share * (length[around] - 1)).astype(int)
    return _strip(sequences, numbers, "for comparison, frames at the same time of episodes", labels[around])


def _strip(sequences: Sequences, numbers: np.ndarray, words: str, named: np.ndarray) -> str:
    """Frames side by side, as a PNG inside the page; below them the words and the numbers `named`."""
    words = f"{words} {', '.join(map(str, named.tolist()))}"
    pictures = [frame_picture(sequences, k).convert("RGB") for k in numbers.tolist()]
    width = max(1, round(HEIGHT * pictures[0].width / pictures[0].height))
    strip = Image.new("RGB", (len(pictures) * (width + 2), HEIGHT), "white")
    for k, picture in enumerate(pictures):
        strip.paste(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), (k * (width + 2), 0))
    strip.save(file := io.BytesIO(), "PNG")
    return image_inside(file.getvalue(), words, words)
