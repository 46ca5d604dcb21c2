from __future__ import annotations

import numpy as np
import pytest

from vinets.data.points import read_points


def written(folder, text: str):
    path = folder / "points.csv"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("header", [True, False])
def test_tables_are_read_as_numpy_reads_them(tmp_path, random, delimiter, header):
    values = random.normal(size=(6, 3))
    path = tmp_path / "points.csv"
    np.savetxt(path, values, delimiter=delimiter, header="a_b" * header, comments="")
    if header:
        text = path.read_text().replace("a_b", delimiter.join(["length (cm)", "b", "c"]), 1)
        path.write_text("\ufeff" + text, encoding="utf-8")  # as spreadsheets begin a file
    points = read_points(path)
    expected = np.loadtxt(path, delimiter=delimiter, skiprows=int(header), encoding="utf-8-sig")
    np.testing.assert_array_equal(points.values, expected)
    assert points.names == (("length_cm", "b", "c") if header else ("x0", "x1", "x2"))
    assert points.labels is None


def test_a_long_heading_is_shortened_where_it_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"column 1 \(a{60}\.\.\.\) has") as caught:
        read_points(written(tmp_path, "a" * 9_000 + ",y\nx,1\n"))
    assert len(str(caught.value)) < 500


def test_numbers_that_pandas_puts_above_columns_are_no_point(tmp_path):
    points = read_points(written(tmp_path, "0,1,2\n.5,.25,1\n.5,.5,1\n"))
    assert points.values.tolist() == [[0.5, 0.25, 1], [0.5, 0.5, 1]]
    assert points.names == ("x0", "x1", "x2")
    assert len(read_points(written(tmp_path, "0,1,3\n.5,.25,1\n")).values) == 2
    assert len(read_points(written(tmp_path, "0\n.5\n")).values) == 2  # it may well be one


@pytest.mark.parametrize("label", ["kind", "1"])
def test_a_column_of_classes_is_taken_out(tmp_path, label):
    path = written(tmp_path, 'x,kind,y\n1,"a, b",2\n\n3,c,4\n')
    points = read_points(path, label)
    assert points.values.tolist() == [[1, 2], [3, 4]]
    assert points.labels.tolist() == ["a, b", "c"]
    assert points.names == ("x", "y")
    np.save(tmp_path / "p.npy", np.array([[1, 0, 5], [2, 1, 6]]))
    points = read_points(tmp_path / "p.npy", "1")
    assert points.values.tolist() == [[1, 5], [2, 6]] and points.labels.tolist() == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n3,\n", r"Row 3, column 2 \(b\) has nothing"),
        ("a,b\n1,nan\n", r"Row 2, column 2 \(b\) has 'nan'"),
        ("1,2\n3,four\n", r"Row 2, column 2 \(x1\) has 'four'"),
        ("1,2\n\n3,inf\n", r"Row 3, column 2"),
        ("1,1_000\n", r"has '1_000'"),
        ("1,2\n3\n", r"2 cells in every row. Row 2 has 1"),
        ("a,b\n", "no rows of numbers"),
        ("", "no rows of numbers"),
    ],
)
def test_cells_that_are_no_numbers_are_named_by_row_and_column(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_points(written(tmp_path, text))


def test_other_files_and_labels_are_refused(tmp_path):
    (tmp_path / "image.csv").write_bytes(b"\x89PNG\xff\xfe")
    np.save(tmp_path / "bad.npy", np.array([[1.0, 2.0], [3.0, np.nan]]))
    np.save(tmp_path / "flat.npy", np.zeros(3))
    (tmp_path / "empty.csv").write_text("x,y\n1,\n")
    for name, label, message in (
        ("image.csv", None, "CSV file in UTF-8"),
        ("nothing.csv", None, "does not exist"),
        ("bad.npy", None, r"Row 2, column 2 \(x1\) has nan"),
        ("flat.npy", None, r"\(points, variables\)"),
        ("empty.csv", "z", "one of x, y, or a number from 0 to 1"),
        ("empty.csv", "y", "Row 2 has none"),
    ):
        with pytest.raises((ValueError, FileNotFoundError), match=message):
            read_points(tmp_path / name, label)
