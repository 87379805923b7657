#!/usr/bin/env python3
"""How fast Voxfit lists and loads series beside pydicom, SimpleITK and dcm2niix, and how much memory a load takes.

    cargo build --release --locked
    python3 tests/bench/series.py [--rounds 5] [--files 10000] [--voxfit target/release/voxfit] [--shared ../shared]

Makes a throw-away virtual environment with pydicom, SimpleITK and dcm2niix, then times all programs in turn, round by
round, so that a busy machine is busy for each of them. Voxfit and dcm2niix are timed as whole processes; of Python
programs only the work itself is timed, not the start of Python and its imports. Ratios are of the medians (and of the
best). Held against: headers 5 times faster than pydicom, loads 2 times faster than SimpleITK and dcm2niix, a peak of at
most 1.4 times the volume and 150 MB. Exits with 1 where one is missed.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv

HERE = pathlib.Path(__file__).resolve().parent.parent.parent

MAKE = r"""
import pathlib, sys, pydicom
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence
from pydicom.uid import ExplicitVRLittleEndian, EnhancedCTImageStorage
source, plain, headers, multi, n = sys.argv[1:]
real = [pydicom.dcmread(f, force=True) for f in sorted(pathlib.Path(source).glob("I*"))]
real.sort(key=lambda d: float(d.ImagePositionPatient[2]))
# Headers as they are, with pixels cut to 8 x 8: unique instance UIDs, a series for each turn through the files.
cut = []
for d in real:
    sop, series = str(d.SOPInstanceUID).encode(), str(d.SeriesInstanceUID).encode()
    d.Rows = d.Columns = 8
    d.PixelData = bytes(128)
    d["PixelData"].VR = "OW"
    d.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    path = pathlib.Path(headers) / "one"
    d.save_as(path, enforce_file_format=True)
    cut.append((path.read_bytes(), sop, series))
    path.unlink()
for i in range(int(n)):
    data, sop, series = cut[i % len(cut)]
    data = data.replace(sop, sop[:-6] + b"%06d" % i)
    data = data.replace(series, series[:-5] + b"%05d" % (i // len(cut)))
    (pathlib.Path(headers) / f"h{i:06d}").write_bytes(data)
# The uncompressed series as one Enhanced CT file.
slices = [pydicom.dcmread(f) for f in sorted(pathlib.Path(plain).glob("*.dcm"))]
d = slices[0]
groups, pixels = [], []
for s in slices:
    g, position, scale = Dataset(), Dataset(), Dataset()
    position.ImagePositionPatient = s.ImagePositionPatient
    scale.RescaleIntercept, scale.RescaleSlope, scale.RescaleType = s.RescaleIntercept, s.RescaleSlope, "HU"
    g.PlanePositionSequence, g.PixelValueTransformationSequence = Sequence([position]), Sequence([scale])
    groups.append(g)
    pixels.append(s.PixelData)
shared, measures, orientation = Dataset(), Dataset(), Dataset()
measures.PixelSpacing, orientation.ImageOrientationPatient = d.PixelSpacing, d.ImageOrientationPatient
shared.PixelMeasuresSequence, shared.PlaneOrientationSequence = Sequence([measures]), Sequence([orientation])
for name in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "RescaleIntercept", "RescaleSlope"):
    delattr(d, name)
d.SharedFunctionalGroupsSequence, d.PerFrameFunctionalGroupsSequence = Sequence([shared]), Sequence(groups)
d.NumberOfFrames, d.PixelData = len(slices), b"".join(pixels)
d.SOPClassUID = d.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
d.save_as(pathlib.Path(multi) / "multi.dcm", enforce_file_format=True)
"""

PYDICOM = r"""
import pathlib, sys, time, pydicom
start = time.perf_counter()
series = {}
for f in pathlib.Path(sys.argv[1]).iterdir():
    d = pydicom.dcmread(f, stop_before_pixels=True)
    series.setdefault(d.SeriesInstanceUID, []).append(d.SOPInstanceUID)
print(time.perf_counter() - start, len(series), sum(map(len, series.values())))
"""

SITK = r"""
import sys, time
import SimpleITK as sitk
start = time.perf_counter()
reader = sitk.ImageSeriesReader()
reader.SetFileNames(reader.GetGDCMSeriesFileNames(sys.argv[1]))
image = reader.Execute()
print(time.perf_counter() - start, *image.GetSize())
"""


def run(command):
    """Seconds, peak RSS in bytes and output of a whole process."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        text = out.read().decode(errors="replace")
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{command} failed: {text}")
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, usage.ru_maxrss * unit, text


class Bench:
    """The tools, the rounds and what was found."""

    def __init__(self, python, voxfit, rounds):
        self.python, self.voxfit, self.rounds, self.missed = python, voxfit, rounds, False

    def inside(self, script, folder):
        """Seconds that a Python script says it took."""
        return float(run([self.python, "-c", script, str(folder)])[2].split()[0])

    def hold(self, what, fine):
        self.missed |= not fine
        print(f"    {what}: {'yes' if fine else 'NO'}")

    def compare(self, title, target, ours, others):
        times = {name: [] for name in ["voxfit", *others]}
        for _ in range(self.rounds):
            times["voxfit"].append(ours())
            for name, other in others.items():
                times[name].append(other())
        print(f"\n{title}")
        for name, t in times.items():
            print(f"  {name:<10} median {statistics.median(t):7.3f} s   best {min(t):7.3f} s")
        for name in others:
            middle = statistics.median(times[name]) / statistics.median(times["voxfit"])
            best = min(times[name]) / min(times["voxfit"])
            print(f"  {name} / voxfit: {middle:.2f} (of the best: {best:.2f})")
            self.hold(f"at least {target}", middle >= target)

    def memory(self, title, folder):
        rss = max(run([self.voxfit, "bench", "load", str(folder), "--repeat", "1"])[1] for _ in range(2))
        found = json.loads(run([self.voxfit, "series", "--json", str(folder)])[2])["series"]
        x, y, z = max((s["size"] for s in found), key=lambda s: s[0] * s[1] * s[2])
        volume = 2 * x * y * z
        print(f"\nmemory of {title}: peak {rss / 1e6:.0f} MB, volume {volume / 1e6:.0f} MB ({x}x{y}x{z})")
        self.hold("at most 1.4 times the volume and 150 MB", rss <= 1.4 * volume + 150e6)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--voxfit", default=str(HERE / "target/release/voxfit"))
    parser.add_argument("--shared", default=os.environ.get("VOXFIT_SHARED", str(HERE.parent / "shared")))
    parser.add_argument("--venv", help="keep the virtual environment here for the next time")
    args = parser.parse_args()
    source = pathlib.Path(args.shared) / "data/dicom/philips_140_jpegll"
    if not source.exists():
        print(f"skipped: {source} is missing")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        place = pathlib.Path(args.venv) if args.venv else scratch / "venv"
        bin_ = place / ("Scripts" if os.name == "nt" else "bin")
        if not (bin_ / "dcm2niix").exists():
            venv.create(place, with_pip=True)
            subprocess.check_call([bin_ / "python", "-m", "pip", "-q", "install", "pydicom", "SimpleITK", "dcm2niix"])
        bench = Bench(str(bin_ / "python"), args.voxfit, args.rounds)
        versions = "import pydicom, SimpleITK as s; print('pydicom', pydicom.__version__, 'SimpleITK', s.Version.VersionString())"
        print(run([bench.python, "-c", versions])[2].strip())
        print(subprocess.run([bin_ / "dcm2niix", "--version"], capture_output=True, text=True).stdout.split("\n")[0])
        print(run([bench.voxfit, "--version"])[2].strip(), "on", os.cpu_count(), "cores, load", os.getloadavg()[0])
        headers, plain, multi, files, nii = (scratch / n for n in ("headers", "plain", "multi", "files", "nii"))
        for folder in (headers, multi, files, nii):
            folder.mkdir()
        for f in source.glob("I*"):
            shutil.copy(f, files)
        run([bench.voxfit, "volume", str(files), "--out", str(plain)])
        run([bench.python, "-c", MAKE, str(source), str(plain), str(headers), str(multi), str(args.files)])
        bench.compare(
            f"{args.files} headers: `voxfit series` (whole process) and pydicom's stop_before_pixels loop",
            5,
            lambda: run([bench.voxfit, "series", "--json", str(headers)])[0],
            {"pydicom": lambda: bench.inside(PYDICOM, headers)},
        )
        for title, folder in (("140 slices of lossless JPEG", files), ("the same uncompressed", plain)):
            convert = [str(bin_ / "dcm2niix"), "-z", "n", "-b", "n", "-w", "1", "-f", "x", "-o", str(nii), str(folder)]
            bench.compare(
                f"{title}: a load (whole process), SimpleITK's ImageSeriesReader, dcm2niix",
                2,
                lambda folder=folder: run([bench.voxfit, "bench", "load", str(folder), "--repeat", "1"])[0],
                {
                    "SimpleITK": lambda folder=folder: bench.inside(SITK, folder),
                    "dcm2niix": lambda convert=convert: run(convert)[0],
                },
            )
        for title, folder in (("lossless JPEG", files), ("uncompressed", plain), ("multi-frame", multi)):
            bench.memory(title, folder)
        return int(bench.missed)


if __name__ == "__main__":
    sys.exit(main())
