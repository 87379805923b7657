#!/bin/sh
# Installs what is missing, builds in release mode and opens the window on the embedded demo.
# With no display: runs the demo headless and says where the report and the pictures are.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
sh packaging/setup.sh build
PATH="$PATH:$HOME/.cargo/bin"
cargo build --release --locked

display=yes
case "$(uname -s)" in
    Linux | *BSD) [ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || display=no ;;
esac
if [ "$display" = yes ]; then
    exec target/release/voxfit demo
fi
out=${1:-target/demo}
echo "No display found: running the demo without a window." >&2
target/release/voxfit demo --headless --out "$out"
