"""The labels that a matcher is trained on, on a rendered plane whose geometry is known."""

import numpy as np
import pytest

pycolmap = pytest.importorskip("pycolmap")

from research.geometry import Photo, Scene, between, pairs, relative, turn  # noqa: E402
from research.labels import label, view  # noqa: E402

FOCAL, WIDTH, HEIGHT = 800.0, 640, 480


def photo(name: str, R: np.ndarray, centre: tuple, xyz: np.ndarray, noise: float = 0.0) -> Photo:
    """Sees every point, each a keypoint of the same size on the plane."""
    camera = pycolmap.Camera(
        model="SIMPLE_RADIAL", width=WIDTH, height=HEIGHT, params=[FOCAL, WIDTH / 2, HEIGHT / 2, 0.02]
    )
    t = -R @ np.array(centre, float)
    inside = xyz @ R.T + t
    xy = camera.img_from_cam(inside) - 0.5
    detected = np.column_stack([xy, 20 / inside[:, 2]])
    return Photo(name, camera, R, t, detected, xy, np.arange(len(xyz)))


@pytest.fixture(scope="module")
def scene() -> Scene:
    """A slanted plane seen by three cameras; the third is turned by a quarter about its axis."""
    xy = np.random.default_rng(0).uniform([-1.5, -1.0], [1.5, 1.0], (1500, 2))
    xyz = np.column_stack([xy, 5 + 0.3 * xy[:, 0]])
    c, s = np.cos(0.2), np.sin(0.2)
    aside = np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])
    quarter = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    photos = [
        photo("a.jpg", np.eye(3), (0, 0, 0), xyz),
        photo("b.jpg", aside, (1, 0.1, 0), xyz),
        photo("c.jpg", quarter, (0.3, 0, 0), xyz),
    ]
    return Scene("plane", {each.name: each for each in photos}, xyz)


def keypoints(photo: Photo, rows: np.ndarray, angle: float = 0.0) -> np.ndarray:
    return np.column_stack([photo.detected[rows], np.full(len(rows), angle)])


def everything(rows: int, columns: int) -> np.ndarray:
    return np.tile(np.arange(columns), (rows, 1))


def test_keypoints_with_one_triangulated_point_are_positive(scene):
    rows = np.arange(100)
    a, b = (view(scene, name, keypoints(scene.photos[name], rows)) for name in ("a.jpg", "b.jpg"))
    labels = label(a, b, everything(100, 100), everything(100, 100))
    own = {(row, row) for row in rows}
    assert own <= {tuple(pair) for pair in labels.positives.tolist()}
    assert (labels.a == 1).all()
    assert (np.diag(labels.ab) == 1).all()
    np.testing.assert_array_equal(labels.ab == 1, labels.ba.T == 1)


def test_keypoints_without_a_point_are_matched_by_the_surface_around_them(scene):
    hidden = np.random.default_rng(1).permutation(1500)[:300]
    photos = {}
    for name, each in scene.photos.items():
        points = each.points.copy()
        points[hidden] = -1
        photos[name] = Photo(name, each.camera, each.R, each.t, each.detected, each.xy, points)
    thinned = Scene("plane", photos, scene.xyz)
    a, b = (view(thinned, name, keypoints(photos[name], hidden)) for name in ("a.jpg", "b.jpg"))
    labels = label(a, b, everything(300, 300))
    assert (a.tracks == -1).mean() > 0.99  # two of the random points may lie in one place
    known = np.isfinite(a.inverse_depth[0]) & np.isfinite(b.inverse_depth[0])
    assert known.sum() > 200
    assert {(row, row) for row in np.flatnonzero(known)} <= {tuple(pair) for pair in labels.positives.tolist()}
    places = photos["b.jpg"].xy[hidden]
    apart = places[labels.positives[:, 1]] - places[labels.positives[:, 0]]
    assert np.hypot(*apart.T).max() < 4


def test_candidates_far_from_the_epipolar_line_are_negative_and_those_near_it_are_left_out(scene):
    rng = np.random.default_rng(2)
    anywhere = np.column_stack([rng.uniform([20, 20], [620, 460], (200, 2)), np.full((200, 2), [4, 0])])
    bare = Scene(
        "bare",
        {
            name: Photo(name, p.camera, p.R, p.t, p.detected, p.xy, np.full(1500, -1))
            for name, p in scene.photos.items()
        },
        scene.xyz,
    )
    a, b = view(bare, "a.jpg", anywhere), view(bare, "b.jpg", anywhere[::-1])
    labels = label(a, b, everything(200, 200))
    assert len(labels.positives) == 0
    R, t = relative(a.photo, b.photo)
    E = np.array([[0, -t[2], t[1]], [t[2], 0, -t[0]], [-t[1], t[0], 0]]) @ R
    one, two = (np.column_stack([each.rays[0], np.ones(200)]) for each in (a, b))
    lines = one @ E.T
    off = FOCAL * np.abs(lines @ two.T) / np.hypot(lines[:, 0], lines[:, 1])[:, None]
    assert not (labels.ab[off <= 12] == -1).any()
    assert (labels.ab[off > 30] == -1).mean() > 0.95
    assert set(np.unique(labels.ab)) == {-1, 0}


def test_keypoint_whose_candidates_are_all_wrong_is_unmatched_and_padding_says_nothing(scene):
    a, b = (view(scene, name, keypoints(scene.photos[name], np.arange(50))) for name in ("a.jpg", "b.jpg"))
    full = label(a, b, everything(50, 50))
    wrong = np.argmin(full.ab, axis=1)[:, None]
    labels = label(a, b, np.column_stack([wrong, np.full(50, -1)]))
    assert (labels.ab[:, 0] == -1).all()
    assert (labels.ab[:, 1] == 0).all()
    assert (label(a, b, np.full((50, 2), -1)).ab == 0).all()


def test_upright_keypoints_of_turned_photos_have_no_positives_but_oriented_ones_do(scene):
    rows = np.arange(100)
    a = view(scene, "a.jpg", keypoints(scene.photos["a.jpg"], rows))
    upright = view(scene, "c.jpg", keypoints(scene.photos["c.jpg"], rows))
    oriented = view(scene, "c.jpg", keypoints(scene.photos["c.jpg"], rows, np.pi / 2))
    assert len(label(a, upright, everything(100, 100)).positives) == 0
    assert (label(a, oriented, everything(100, 100)).a == 1).all()


def test_keypoint_found_twice_beside_its_match_is_left_out(scene):
    rows = np.arange(40)
    a = view(scene, "a.jpg", keypoints(scene.photos["a.jpg"], rows))
    once = keypoints(scene.photos["b.jpg"], rows)
    twice = once + np.array([4.5, 0, 0, 0])  # farther than a match may be, nearer than what counts as another place
    b = view(scene, "b.jpg", np.concatenate([once, twice]))
    labels = label(a, b, everything(40, 80))
    assert (np.diag(labels.ab[:, 40:]) == 0).all()


def test_pairs_count_common_points_and_the_angle_between_their_rays(scene):
    found = {(pair.a, pair.b): pair for pair in pairs(scene)}
    assert found["a.jpg", "b.jpg"].shared == 1500
    assert found["a.jpg", "b.jpg"].share == 1
    assert 8 < found["a.jpg", "b.jpg"].angle < 14  # a step of 1 at a distance of 5
    assert found["a.jpg", "c.jpg"].angle < found["a.jpg", "b.jpg"].angle


def test_angles_between_rotations_and_directions_are_exact():
    c, s = np.cos(0.01), np.sin(0.01)
    assert turn(np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])) == pytest.approx(np.degrees(0.01))
    assert between(np.array([1.0, 0, 0]), np.array([-1.0, 0, 0])) == pytest.approx(180)
