"""`plan2vec drive`: one episode in a maze of SPTM, by a fitted run of its walkthrough."""

from plan2vec.acting.picture_driver import Driver, RouteGuide
from plan2vec.commands.answers import print_answer
from plan2vec.commands.arguments import DriveCommand
from plan2vec.domains import doom
from plan2vec.experiments.doom_driving import PICTURE, DoomScene, drive
from plan2vec.learning.frame_tensors import choose_device
from plan2vec.model import load
from plan2vec.pictures.films import Moment, save_drive, writer_of
from plan2vec.results.experiment import Settings
from plan2vec.results.requests import ReproduceRequest


def run_drive(command: DriveCommand) -> None:
    if command.film is not None:
        writer_of(command.film)  # refuses before any work is done
    doom.find_setup(command.doom_data, command.maze)
    asked = ReproduceRequest("doom", doom_data=command.doom_data, doom_explore=command.doom_explore)
    settings = Settings(asked=asked, device=choose_device(command.device))
    scene = DoomScene(command.maze, command.seed, settings, command.run.parent)
    scene.model = load(command.run, command.device, command.encoder)
    if scene.model.sequences.frame_shape != (*PICTURE, 3):
        raise ValueError(f"{command.run} was fitted to frames of shape {scene.model.sequences.frame_shape}; expected "
                         f"colour frames of {PICTURE[0]} x {PICTURE[1]}, as `plan2vec reproduce doom` replays them")
    environment = doom.DoomMaze(command.doom_data, command.maze, command.start, command.goal)
    driver = scene.driver("plan2vec")
    assert isinstance(driver, Driver) and isinstance(driver.guide, RouteGuide)
    guide, moments = driver.guide, list[Moment]()
    watch = lambda view, _: moments.append(Moment(view, driver.target, guide.node))  # noqa: E731
    episode = drive(environment, driver, command.seed, doom.TIME_LIMIT // doom.TICS, watch)
    environment.close()
    answer: dict[str, object] = {"success": episode.arrived, "tics": doom.TICS * episode.num_decisions,
                                 "decisions": episode.num_decisions, "touched": guide.num_touched}
    if command.film is not None:
        save_drive(scene.model, moments, environment.goal_view, command.film)
        answer["film"] = str(command.film)
    answer["decisions_per_second"] = round(episode.num_decisions / max(episode.seconds, 1e-9), 1)
    print_answer(answer, command.json)
