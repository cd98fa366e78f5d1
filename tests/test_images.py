"""Real files, good and bad, as pixels or as refusals."""

import random
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import skimage.data
import torch
from PIL import Image, ImageDraw, ImageOps, features
from torch import Tensor, nn

import secondsight as ss
from secondsight.model import images

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
TRANSPOSED = 5
"""EXIF orientations from this one on swap width and height."""


def load(photograph: images.Photograph, channels: int = 3, **more: Any) -> Tensor:
    return ss.Classifier(nn.Identity(), channels=channels, **more).load(photograph)


def colour(pixels: Tensor, row: int, column: int) -> list[int]:
    return [round(float(level) * 255) for level in pixels[:, row, column]]


def noise(width: int = 40, height: int = 30) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def refusal(photograph: images.Photograph, name: str | None = None) -> str:
    """The message that the photograph is refused with: one line that names it."""
    with pytest.raises(ss.ImageError) as caught:
        load(photograph)
    message = str(caught.value)
    assert isinstance(caught.value, ss.SecondsightError)
    assert "\n" not in message
    assert (name or str(photograph)) in message
    return message


def png_of_declared_size(path: Path, width: int, height: int) -> Path:
    """A few bytes whose header promises a large picture."""
    path.write_bytes(png(struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0), zlib.compress(b"")))
    return path


def png(header: bytes, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


class TestRefused:
    def test_missing_file(self, tmp_path: Path) -> None:
        assert "does not exist" in refusal(tmp_path / "none.jpg")

    def test_directory(self, tmp_path: Path) -> None:
        assert "not a file" in refusal(tmp_path)

    def test_name_longer_than_the_system_allows(self) -> None:
        refusal("a" * 5000)

    def test_text(self, tmp_path: Path) -> None:
        path = tmp_path / "text.jpg"
        path.write_text("no picture\n" * 100)
        assert "not an image" in refusal(path)

    def test_empty_file(self, tmp_path: Path) -> None:
        path = tmp_path / "empty.png"
        path.touch()
        assert "not an image" in refusal(path)

    @pytest.mark.parametrize("suffix", ["jpg", "png"])
    def test_truncated(self, tmp_path: Path, suffix: str) -> None:
        path = tmp_path / f"half.{suffix}"
        noise().save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        assert "cannot be read" in refusal(path)

    # Pillow only warns of the first.
    @pytest.mark.parametrize("side", [10_000, 30_000])
    def test_decompression_bomb(self, tmp_path: Path, side: int) -> None:
        assert "pixels" in refusal(png_of_declared_size(tmp_path / "bomb.png", side, side))

    def test_decompression_bomb_without_a_limit_of_pillow(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
        path = png_of_declared_size(tmp_path / "bomb.png", 30_000, 30_000)
        assert "900,000,000 pixels" in refusal(path)
        with Image.open(path) as picture:
            assert "900,000,000 pixels" in refusal(picture, name=str(path))

    def test_floating_point_grey_levels_outside_0_to_1(self, tmp_path: Path) -> None:
        path = tmp_path / "float.tif"
        picture = Image.fromarray(np.linspace(-3, 3, 64, dtype=np.float32).reshape(8, 8))
        assert picture.mode == "F"
        picture.save(path)
        assert "value_range" in refusal(path)
        assert "floating-point grey levels from -3 to 3, not 0 to 1" in refusal(picture, name="the picture")

    def test_floating_point_grey_levels_that_are_no_numbers(self) -> None:
        levels = np.array([[0.0, np.nan], [1.0, 0.5]], dtype=np.float32)
        assert "not finite" in refusal(Image.fromarray(levels), name="the picture")

    def test_own_limit(self) -> None:
        picture = noise(40, 30)
        assert load(picture, max_pixels=1200).shape == (3, 30, 40)
        with pytest.raises(ss.ImageError, match="1,200 pixels, more than max_pixels = 1,199"):
            load(picture, max_pixels=1199)

    def test_grey_levels_of_32_bits(self, tmp_path: Path) -> None:
        path = tmp_path / "deep.tif"
        Image.fromarray(np.array([[0, 65536], [2**20, 2**30]], dtype=np.int32)).save(path)
        assert "65535" in refusal(path)

    def test_mode_without_a_way_to_rgb(self) -> None:
        refusal(Image.new("La", (4, 4)), name="the picture")

    def test_truncated_file_opened_by_the_caller(self, tmp_path: Path) -> None:
        path = tmp_path / "half.jpg"
        noise().save(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with Image.open(path) as picture:
            refusal(picture, name=str(path))

    @pytest.mark.parametrize("trials", [150, pytest.param(4000, marks=pytest.mark.slow)])
    @pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "bmp", "tif", "webp", "ppm", "ico", "avif"])
    def test_damaged_files_are_read_or_refused(self, tmp_path: Path, suffix: str, trials: int) -> None:
        if suffix in ("avif", "webp") and not features.check(suffix):
            pytest.skip(f"Pillow without {suffix}")
        path = tmp_path / f"damaged.{suffix}"
        orientation = Image.Exif()
        orientation[0x0112] = 6
        noise(24, 16).save(path, **({"exif": orientation} if suffix in ("jpg", "png", "webp") else {}))
        whole = path.read_bytes()
        generator = random.Random(trials)
        refusals: list[str] = []
        for trial in range(trials):
            damaged = bytearray(whole)
            if trial < trials / 3:
                del damaged[generator.randrange(len(whole)) :]
            else:
                for _ in range(generator.choice([1, 4, 30])):
                    damaged[generator.randrange(generator.choice([64, len(whole)]))] = generator.randrange(256)
            path.write_bytes(damaged)
            try:
                pixels = load(path, max_pixels=10**6, size=generator.choice([None, 8]))
            except ss.ImageError as error:
                refusals.append(str(error))
            else:
                assert pixels.shape[0] == 3
        assert all(str(path) in message and "\n" not in message for message in refusals)
        assert len(refusals) > 10


class TestConverted:
    @pytest.mark.parametrize("depth", ["8 bits", "16 bits", "float"])
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_a_file_of_the_networks_size_is_its_tensor(self, tmp_path: Path, depth: str, channels: int) -> None:
        """Nothing is cut off, and no precision is lost on the way."""
        levels = np.random.default_rng(1).random((20, 30))
        arrays = {
            "8 bits": (levels * 255).round().astype(np.uint8),
            "16 bits": (levels * 65535).round().astype(np.uint16),
            "float": levels.astype(np.float32),
        }
        wanted = torch.from_numpy(arrays[depth] / {"8 bits": 255, "16 bits": 65535, "float": 1}[depth]).float()
        path = tmp_path / "file.tif"
        Image.fromarray(arrays[depth]).save(path)
        pixels = load(path, channels=channels, size=(20, 30))
        assert pixels.shape == (channels, 20, 30)
        assert all(torch.equal(plane, wanted) for plane in pixels[:3])
        assert bool((pixels[3:] == 1).all())

    def test_value_range(self, tmp_path: Path) -> None:
        path = tmp_path / "twelve.png"
        Image.fromarray(np.array([[0, 1024, 4095, 2000]], dtype=np.uint16)).save(path)
        assert load(path, channels=1, value_range=(0, 4095))[0, 0].tolist() == pytest.approx(
            [0, 1024 / 4095, 1, 2000 / 4095]
        )
        narrow = ss.Classifier(nn.Identity(), channels=1, value_range=(1000, 2000)).read(path)
        assert narrow.values[0, 0].tolist() == pytest.approx([0, 0.024, 1, 1])
        assert "clipped to value_range = (1000, 2000)" in narrow.notes[0]

    @pytest.mark.parametrize(("high", "noted"), [(255, 255), (1023, 1023), (3000, 4095), (16383, 16383), (40000, None)])
    def test_data_of_fewer_bits_in_16_are_noted(self, high: int, noted: int | None) -> None:
        picture = Image.fromarray(np.array([[0, high]], dtype=np.uint16))
        notes = ss.Classifier(nn.Identity()).read(picture).notes
        assert len(notes) == (0 if noted is None else 1)
        assert noted is None or f"value_range = (0, {noted})" in notes[0]

    @pytest.mark.parametrize("value", [3, (1,), (2, 1), (0, float("nan")), "0,1", ("a", "b")])
    def test_bad_value_range(self, value: Any) -> None:
        with pytest.raises(ss.InputError, match="value_range must be None or two numbers"):
            ss.Classifier(nn.Identity(), value_range=value)

    def test_first_frame_of_an_animation(self, tmp_path: Path) -> None:
        path = tmp_path / "moving.gif"
        frames = [Image.new("RGB", (4, 4), shade) for shade in (RED, GREEN, BLUE)]
        frames[0].save(path, save_all=True, append_images=frames[1:])
        with Image.open(path) as picture:
            assert picture.n_frames == 3
        assert colour(load(path), 0, 0) == list(RED)

    def test_cmyk(self, tmp_path: Path) -> None:
        path = tmp_path / "print.jpg"
        Image.new("CMYK", (16, 16), (0, 255, 255, 0)).save(path, quality=100)
        with Image.open(path) as picture:
            assert picture.mode == "CMYK"
        assert np.allclose(colour(load(path), 8, 8), RED, atol=3)

    def test_grey_levels_of_16_bits_are_scaled(self, tmp_path: Path) -> None:
        path = tmp_path / "deep.png"
        Image.fromarray(np.array([[0, 200, 32768, 65535]], dtype=np.uint16)).save(path)
        with Image.open(path) as picture:
            assert picture.mode == "I;16"
        levels = load(path, channels=1)[0, 0].tolist()
        assert levels == pytest.approx([0, 200 / 65535, 0.5, 1], abs=1 / 255)
        assert levels[3] == 1
        assert torch.equal(load(path)[1], load(path, channels=1)[0])

    def test_dark_pictures_of_16_bits_stay_dark(self, tmp_path: Path) -> None:
        path = tmp_path / "dark.png"
        Image.fromarray(np.array([[0, 100, 255]], dtype=np.uint16)).save(path)
        assert float(load(path).max()) < 1.5 / 255

    def test_integers_of_8_bits_are_not_darkened(self) -> None:
        picture = Image.fromarray(np.array([[0, 128, 255]], dtype=np.int32))
        assert picture.mode == "I"
        assert load(picture, channels=1)[0, 0].tolist() == pytest.approx([0, 128 / 255, 1])

    @pytest.mark.parametrize(
        ("transparency", "shown"),
        [
            (None, [RED, BLUE]),
            (1, [RED, WHITE]),
            (bytes([255, 0]), [RED, WHITE]),
            (bytes([51, 255]), [(255, 204, 204), BLUE]),
        ],
    )
    def test_palette(self, tmp_path: Path, transparency: int | bytes | None, shown: list[tuple[int, ...]]) -> None:
        path = tmp_path / "palette.png"
        picture = Image.new("P", (2, 1))
        picture.putpalette([*RED, *BLUE])
        picture.putdata([0, 1])
        picture.save(path, **({} if transparency is None else {"transparency": transparency}))
        pixels = load(path)
        assert [tuple(colour(pixels, 0, i)) for i in range(2)] == shown

    def test_alpha_is_laid_on_white(self, tmp_path: Path) -> None:
        path = tmp_path / "alpha.png"
        picture = Image.new("RGBA", (3, 1))
        picture.putdata([(255, 0, 0, 255), (255, 0, 0, 0), (0, 0, 0, 51)])
        picture.save(path)
        pixels = load(path)
        assert [tuple(colour(pixels, 0, i)) for i in range(3)] == [RED, WHITE, (204, 204, 204)]
        assert [colour(load(path, channels=1), 0, i) for i in range(3)] == [[76], [255], [204]]

    def test_alpha_is_kept_for_four_channels(self) -> None:
        picture = Image.new("RGBA", (2, 1))
        picture.putdata([(255, 0, 0, 51), (0, 0, 255, 255)])
        pixels = load(picture, channels=4)
        assert [colour(pixels, 0, i) for i in range(2)] == [[255, 0, 0, 51], [0, 0, 255, 255]]

    def test_grey_with_alpha_is_laid_on_white(self) -> None:
        assert colour(load(Image.new("LA", (1, 1), (0, 0))), 0, 0) == list(WHITE)

    def test_transparent_colour_is_laid_on_white(self, tmp_path: Path) -> None:
        path = tmp_path / "key.png"
        picture = Image.new("RGB", (2, 1), RED)
        picture.putpixel((1, 0), BLUE)
        picture.save(path, transparency=RED)
        assert [colour(load(path), 0, i) for i in range(2)] == [list(WHITE), list(BLUE)]

    @pytest.mark.parametrize(("channels", "shown"), [(1, [76]), (3, [255, 0, 0]), (4, [255, 0, 0, 255])])
    def test_channels(self, channels: int, shown: list[int]) -> None:
        pixels = load(Image.new("RGB", (5, 4), RED), channels=channels)
        assert pixels.shape == (channels, 4, 5)
        assert pixels.dtype == torch.float32
        assert colour(pixels, 0, 0) == shown

    @pytest.mark.parametrize("mode", ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LA", "PA", "I;16"])
    @pytest.mark.parametrize("channels", [1, 3, 4])
    def test_modes(self, mode: str, channels: int) -> None:
        pixels = load(Image.new(mode, (3, 2)), channels=channels)
        assert pixels.shape == (channels, 2, 3)

    # Where the stored top left corner belongs, as (row, column) of the upright picture.
    @pytest.mark.parametrize(
        ("orientation", "corner"),
        list(enumerate([(0, 0), (0, -1), (-1, -1), (-1, 0), (0, 0), (0, -1), (-1, -1), (-1, 0)], start=1)),
    )
    @pytest.mark.parametrize("suffix", ["png", "jpg"])
    def test_orientation(self, tmp_path: Path, orientation: int, corner: tuple[int, int], suffix: str) -> None:
        path = tmp_path / f"turned.{suffix}"
        picture = Image.new("RGB", (64, 32), BLUE)
        picture.paste(RED, (0, 0, 16, 16))
        exif = Image.Exif()
        exif[0x0112] = orientation
        picture.save(path, exif=exif)
        pixels = load(path)
        assert pixels.shape == ((3, 64, 32) if orientation >= TRANSPOSED else (3, 32, 64))
        for row in (0, -1):
            for column in (0, -1):
                wanted = RED if (row, column) == corner else BLUE
                assert np.allclose(colour(pixels, row, column), wanted, atol=4)


class TestPassedDirectly:
    def test_same_as_its_file(self, tmp_path: Path) -> None:
        path = tmp_path / "noise.png"
        noise().save(path)
        assert torch.equal(load(noise(), size=16), load(path, size=16))
        assert torch.equal(load(str(path), size=16), load(path, size=16))

    def test_stays_as_it_was(self) -> None:
        picture = noise().convert("RGBA")
        picture.getexif()[0x0112] = 6
        before = picture.tobytes()
        assert load(picture).shape == (3, 40, 30)
        assert (picture.mode, picture.size, picture.tobytes()) == ("RGBA", (40, 30), before)
        assert picture.getexif()[0x0112] == 6

    def test_without_a_size_nothing_is_scaled(self) -> None:
        pixels = load(noise())
        assert torch.equal((pixels * 255).round().byte().permute(1, 2, 0), torch.from_numpy(np.array(noise())))


def in_two_steps(picture: Image.Image, size: tuple[int, int], resize: int, resample: Image.Resampling) -> np.ndarray:
    """Scale the shorter side to `resize`, then cut the centre."""
    factor = resize / min(picture.size)
    scaled = picture.resize((round(picture.width * factor), round(picture.height * factor)), resample)
    left, top = (scaled.width - size[1]) // 2, (scaled.height - size[0]) // 2
    return np.asarray(scaled.crop((left, top, left + size[1], top + size[0])), dtype=np.float64) / 255


class TestFit:
    @pytest.mark.parametrize("photograph", [skimage.data.coffee, skimage.data.astronaut])
    @pytest.mark.parametrize("turned", [False, True])
    @pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "lanczos"])
    def test_is_scale_then_crop(self, photograph: Callable[[], np.ndarray], turned: bool, interpolation: str) -> None:
        picture = Image.fromarray(photograph())
        picture = picture.transpose(Image.Transpose.ROTATE_90) if turned else picture
        pixels = load(picture, size=224, interpolation=interpolation).permute(1, 2, 0).numpy()
        wanted = in_two_steps(picture, (224, 224), 256, images.FILTERS[interpolation])
        assert np.abs(pixels - wanted).mean() < 0.005
        # One pixel aside would be seen.
        assert np.abs(pixels - np.roll(wanted, 1, axis=1)).mean() > 0.01

    def test_own_resize_and_a_size_that_is_not_square(self) -> None:
        picture = Image.fromarray(skimage.data.coffee())
        pixels = load(picture, size=(120, 200), resize=160).permute(1, 2, 0).numpy()
        assert np.abs(pixels - in_two_steps(picture, (120, 200), 160, Image.Resampling.BILINEAR)).mean() < 0.005

    @pytest.mark.parametrize("wide", [False, True])
    def test_long_and_narrow_costs_little(self, wide: bool) -> None:
        levels = np.zeros((1, 20_000), dtype=np.uint8)
        levels[:, 10_000:] = 255
        picture = Image.fromarray(levels if wide else levels.T)
        started = time.process_time()
        pixels = load(picture, size=224)
        assert time.process_time() - started < 1
        assert pixels.shape == (3, 224, 224)
        # The centre is kept: the step from black to white.
        ends = (pixels[:, :, 0], pixels[:, :, -1]) if wide else (pixels[:, 0], pixels[:, -1])
        assert float(ends[0].max()) < 0.2
        assert float(ends[1].min()) > 0.8

    def test_one_pixel(self) -> None:
        pixels = load(Image.new("RGB", (1, 1), (10, 20, 30)), size=(24, 32))
        assert pixels.shape == (3, 24, 32)
        assert torch.equal((pixels * 255).round(), torch.tensor([10.0, 20.0, 30.0])[:, None, None].expand(3, 24, 32))

    @pytest.mark.parametrize("interpolation", list(images.FILTERS))
    def test_any_shape_fits(self, interpolation: str) -> None:
        generator = random.Random(0)
        for _ in range(200):
            width, height = generator.randint(1, 300), generator.randint(1, 300)
            size = (generator.randint(1, 40), generator.randint(1, 40))
            pixels = load(Image.new("L", (width, height), 77), size=size, interpolation=interpolation)
            assert pixels.shape == (3, *size)
            assert bool((pixels == 77 / 255).all())

    def test_a_size_that_is_not_square_does_not_stretch(self) -> None:
        """A circle stays a circle."""
        picture = Image.new("RGB", (400, 400), "black")
        ImageDraw.Draw(picture).ellipse((170, 170, 230, 230), fill="white")
        white = load(picture, size=(100, 400))[0] > 0.5
        height, width = int(white.any(1).sum()), int(white.any(0).sum())
        assert height == pytest.approx(width, abs=2)


def whole(picture: Image.Image, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Tensor:
    """Read a picture without reducing it before it is scaled."""
    monkeypatch.setattr(images, "FINE", 10**6)
    return load(picture, **options)


class TestLarge:
    """Pictures that are decoded and reduced before they are scaled look the same."""

    @staticmethod
    def photograph(width: int, height: int) -> Image.Image:
        return Image.fromarray(skimage.data.coffee()).resize((width, height), Image.Resampling.BICUBIC)

    @pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
    @pytest.mark.parametrize("orientation", [1, 3, 6, 8])
    def test_same_as_the_whole_picture(
        self, tmp_path: Path, suffix: str, orientation: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / f"large.{suffix}"
        exif = Image.Exif()
        exif[0x0112] = orientation
        self.photograph(2503, 1671).save(path, exif=exif, **({"quality": 95} if suffix in ("jpg", "webp") else {}))
        pixels = load(path, size=224)
        with Image.open(path) as picture:
            wanted = whole(ImageOps.exif_transpose(picture), monkeypatch, size=224)
        assert float((pixels - wanted).abs().mean()) < 0.003
        for dim in (1, 2):
            # A tenth of a pixel aside would be seen.
            aside = 0.1 * wanted.roll(1, dim) + 0.9 * wanted
            assert float((pixels - aside).abs().mean()) > float((pixels - wanted).abs().mean())

    @pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "CMYK", "I;16", "F", "1"])
    def test_modes_look_the_same_reduced(self, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
        grey = self.photograph(1600, 1200).convert("L")
        if mode == "I;16":
            picture = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257)
        elif mode == "F":
            picture = Image.fromarray(np.asarray(grey).astype(np.float32) / 255)
        else:
            picture = grey.convert("RGBA").convert(mode)
        pixels = load(picture, size=64)
        shown = grey if mode in ("I;16", "F") else picture.convert("RGB")
        assert float((pixels - whole(shown, monkeypatch, size=64)).abs().mean()) < 0.004

    @pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of memory from /proc")
    def test_a_large_picture_of_16_bits_takes_little_memory(self, tmp_path: Path) -> None:
        """9450 x 9450 pixels: 179 MB in 16 bits. The whole process stays below 0.6 GB."""
        path = tmp_path / "large.png"
        side = 9450
        rows = zlib.compress(b"".join(b"\0" + bytes(side * 2) for _ in range(side)), 1)
        path.write_bytes(png(struct.pack(">IIBBBBB", side, side, 16, 0, 0, 0, 0), rows))
        script = (
            "import pathlib, re, sys, secondsight as ss, torch\n"
            "model = ss.Classifier(torch.nn.Identity(), size=224)\n"
            "assert model.load(sys.argv[1]).shape == (3, 224, 224)\n"
            "print(re.search(r'VmHWM:\\s+(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])"
        )
        done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True)
        assert int(done.stdout) * 1024 < 0.6e9


class TestNotes:
    """What the network does not see of a photograph is a note of its result."""

    @staticmethod
    def notes(picture: Image.Image, **options: Any) -> tuple[str, ...]:
        return ss.Classifier(nn.Identity(), **options).read(picture).notes

    def test_crop(self) -> None:
        assert self.notes(noise(500, 375), size=224) == (
            "the network sees the middle 328 x 328 of the photograph's 500 x 375 pixels, scaled to 224 x 224",
        )

    def test_scale(self) -> None:
        assert self.notes(noise(448, 448), size=224, resize=224) == (
            "the network sees the photograph's 448 x 448 pixels, scaled to 224 x 224",
        )

    def test_nothing_is_lost(self) -> None:
        assert self.notes(noise(64, 48), size=(48, 64)) == ()
        assert self.notes(noise(40, 30)) == ()
        assert self.notes(noise(112, 112), size=224, resize=224) == ()

    def test_they_come_with_results(self, tmp_path: Path) -> None:
        path = tmp_path / "noise.png"
        noise(20, 20).save(path)
        net = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))
        model = ss.Classifier(net, size=8)
        wanted = "the network sees the middle 18 x 18 of the photograph's 20 x 20 pixels, scaled to 8 x 8"
        for result in [ss.explain(model, path, "cafo"), *ss.explain(model, [path, noise(20, 20)], "caso")]:
            assert wanted in result.notes
        assert all(wanted in record["notes"] for record in ss.compare(model, path, "cafo,gradient").summaries())
        assert ss.explain(model, model.tensor(path), "cafo").notes == ()


def test_example_photograph_is_there() -> None:
    assert load(ss.example_photograph(), size=224).std() > 0.1
