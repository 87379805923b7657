#!/bin/sh
# Installs what the tests need (lavapipe for pictures) and runs them all.
set -eu
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
sh packaging/setup.sh test
PATH="$PATH:$HOME/.cargo/bin"
# Pictures are drawn on the processor, the same on every machine.
for icd in /usr/share/vulkan/icd.d/lvp_icd*.json; do
    [ -f "$icd" ] && VK_ICD_FILENAMES=${VK_ICD_FILENAMES:-$icd} && export VK_ICD_FILENAMES
done
if command -v cargo-nextest >/dev/null 2>&1; then
    cargo nextest run --locked --cargo-profile ci --no-fail-fast
    cargo test --locked --profile ci --doc
else
    cargo test --locked --profile ci --no-fail-fast
fi
