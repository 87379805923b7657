#!/bin/sh
# Installs what building (setup.sh build) or testing (setup.sh test) needs, when it is missing:
# Debian and Ubuntu by apt, as root or with sudo; elsewhere it says exactly what to install and stops.
set -eu
what=${1:-build}

build="gcc pkg-config"
run="libxkbcommon0 libxkbcommon-x11-0 libx11-xcb1 libxcursor1 libxi6 libxrandr2 libvulkan1 mesa-vulkan-drivers"
# lavapipe draws the pictures of the tests; Xvfb lets them open a real window.
test="xvfb"

need="$build $run"
[ "$what" = test ] && need="$need $test"

rust_help="Rust 1.95 or newer is needed (https://rustup.rs): then run this again."
if ! command -v cargo >/dev/null 2>&1; then
    # A login shell may have it although this one does not.
    if [ -x "$HOME/.cargo/bin/cargo" ]; then
        PATH="$HOME/.cargo/bin:$PATH"
    else
        echo "$rust_help" >&2
        exit 1
    fi
fi

if ! command -v dpkg-query >/dev/null 2>&1; then
    case "$(uname -s)" in
        Linux)
            if ! command -v cc >/dev/null 2>&1; then
                echo "Not a Debian or Ubuntu machine, and a C compiler is missing." >&2
                echo "Install a C compiler, libxkbcommon (and its X11 part)," >&2
                echo "libxcursor, libxi, libxrandr, and a Vulkan loader with a driver (Mesa's lavapipe will do)$([ "$what" = test ] && echo ', and Xvfb')." >&2
                echo "On Fedora: dnf install gcc libxkbcommon libxkbcommon-x11 libXcursor libXi libXrandr vulkan-loader mesa-vulkan-drivers$([ "$what" = test ] && echo ' xorg-x11-server-Xvfb')" >&2
                exit 1
            fi ;;
    esac
    exit 0
fi

missing=""
for package in $need; do
    state=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null || true)
    [ "$state" = "install ok installed" ] || missing="$missing $package"
done
[ -z "$missing" ] && exit 0

if [ "$(id -u)" = 0 ]; then
    sudo=""
elif command -v sudo >/dev/null 2>&1; then
    sudo="sudo"
else
    echo "These packages are missing and this is neither root nor a machine with sudo:$missing" >&2
    echo "Ask an administrator for: apt-get install$missing" >&2
    exit 1
fi
echo "Installing:$missing" >&2
$sudo apt-get update -qq
# shellcheck disable=SC2086
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
