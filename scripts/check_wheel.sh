#!/usr/bin/env bash
# Build the wheel, look inside it, install it in an empty environment and run the command from there.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
constraints=$PWD/constraints.txt
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT

fail() {
    echo "check_wheel: $*" >&2
    exit 1
}

echo "building the wheel"
# From a copy: what an earlier build left behind must not get in.
mkdir "$temporary/source" "$temporary/elsewhere"
cp -R pyproject.toml README.md LICENSE NOTICE src "$temporary/source"
find "$temporary/source" \( -name '*.egg-info' -o -name __pycache__ \) -prune -exec rm -rf {} +
"$python" -m build --wheel --outdir "$temporary" "$temporary/source" >"$temporary/build.log" 2>&1 ||
    { cat "$temporary/build.log" >&2; fail "the wheel cannot be built"; }
wheel=$(echo "$temporary"/secondsight-*.whl)
names=$("$python" -c 'import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep="\n")' "$wheel")

for wanted in py.typed data/chelsea.jpg viewer/static/page.html viewer/static/viewer.js zoo/imagenet_labels.txt; do
    grep -qx "secondsight/$wanted" <<<"$names" || fail "secondsight/$wanted is not in the wheel"
done
if grep -Ei '\.(pt|pth|ckpt|bin|safetensors|onnx|npz|npy|pkl|h5|tflite|gz)$' <<<"$names"; then
    fail "the wheel holds model weights"
fi
size=$(wc -c <"$wheel")
((size < 1000000)) || fail "the wheel has $size bytes: too many for code and one photograph"

echo "installing it in an empty environment"
"$python" -m venv "$temporary/venv"
"$temporary/venv/bin/python" -m pip install --quiet --disable-pip-version-check -c "$constraints" "$wheel"

echo "running it from another directory"
unset PYTHONPATH
cd "$temporary/elsewhere"
"$temporary/venv/bin/secondsight" --version
"$temporary/venv/bin/secondsight" demo --out demo.png
[[ $(head -c 4 demo.png) == $'\x89PNG' ]] || fail "demo.png is no picture"
photograph=$temporary/source/src/secondsight/data/chelsea.jpg
"$temporary/venv/bin/secondsight" explain "$photograph" --html --method cafo --out . >/dev/null
grep -q "class Viewer" chelsea-cafo.html || fail "the page has no viewer"
asked=$("$temporary/venv/bin/secondsight" explain "$photograph" --groups superpixels 2>&1) &&
    fail "superpixels without scikit-image"
[[ $asked == *"pip install 'secondsight[superpixels]'"* ]] || fail "a missing extra does not say how to install it: $asked"
echo "the wheel is good: $(basename "$wheel"), $size bytes"
