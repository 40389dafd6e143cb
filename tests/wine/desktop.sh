#!/usr/bin/env bash
# Run one command inside a real Win32 desktop (Wine's shell: taskbar, Start button) on a virtual screen.
#   desktop.sh [--size 1920x1080] COMMAND [ARG ...]
# The command sees DISPLAY and WINEPREFIX, so whatever it starts with `wine` opens on that desktop, and
# DESKTOP_FRAMEBUFFER, the screen as an XWD file that always shows the present picture.
# Every run gets a fresh copy of a prefix made once (in AGENT_WINE_CACHE, by default ~/.cache/agent-wine) and removes
# it afterwards; set WINEPREFIX to keep one. Exit status: the command's; 97 when no desktop appeared.
# Needs: apt-get install -y --no-install-recommends wine wine64 xvfb fonts-dejavu-core
set -euo pipefail
size=1920x1080
[ "${1:-}" = --size ] && { size=${2:?}; shift 2; }
[[ $# -gt 0 && $size =~ ^[0-9]+x[0-9]+$ ]] || { echo "usage: desktop.sh [--size WxH] COMMAND [ARG ...]" >&2; exit 2; }
# No downloads of Mono and Gecko, and no entries in the host's own menus.
export WINEDEBUG=${WINEDEBUG:--all} WINEARCH=win64 WINEDLLOVERRIDES="mscoree,mshtml=;winemenubuilder.exe=d"
cache=${AGENT_WINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agent-wine}
mkdir -p "$cache/runs"

fail() { echo "desktop.sh: $*" >&2; exit 97; }

screen_pid= run=$(mktemp -d "$cache/runs/XXXXXX")
leave() {
    trap '' INT TERM
    [ ! -d "${WINEPREFIX:-}" ] || { wineserver -k; wineserver -w; } >/dev/null 2>&1 || true
    [ -z "$screen_pid" ] || { kill "$screen_pid" && wait "$screen_pid"; } 2>/dev/null || true
    rm -rf "$run"
}
trap leave EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

wait_for() {  # wait_for SECONDS WHAT COMMAND...: poll until the command succeeds
    local tries=$(($1 * 10)) what=$2; shift 2
    until "$@"; do
        [ $((tries--)) -gt 0 ] || fail "$what"
        sleep 0.1
    done
}

start_screen() {
    # Xvfb finds a free display number itself and writes it when it accepts clients.
    Xvfb -displayfd 3 -screen 0 "${size}x24" -fbdir "$run" -nolisten tcp 3>"$run/display" >"$run/xvfb.log" 2>&1 &
    screen_pid=$!
    wait_for 20 "the virtual screen did not start" test -s "$run/display"
    read -r number <"$run/display"
    export DISPLAY=":$number" DESKTOP_FRAMEBUFFER="$run/Xvfb_screen0"
    unset XAUTHORITY WAYLAND_DISPLAY
}

choose_fonts() {  # the same three on every machine: what else is installed there would change every glyph and width
    local name found
    mkdir -p "$cache/fonts"
    for name in DejaVuSans DejaVuSans-Bold DejaVuSansMono; do
        found=$(find /usr/share/fonts -name "$name.ttf" -print -quit)
        [ -n "$found" ] || fail "install fonts-dejavu-core"
        # A folder of their own: Wine reads whole folders, whatever the configuration rejects in them.
        [ -f "$cache/fonts/$name.ttf" ] || { cp "$found" "$run/$name" && mv "$run/$name" "$cache/fonts/$name.ttf"; }
    done
    export FONTCONFIG_FILE="$run/fonts.conf"
    echo "<fontconfig><dir>$cache/fonts</dir><cachedir>$run/fontconfig</cachedir></fontconfig>" >"$FONTCONFIG_FILE"
}

make_template() {  # one initialised prefix, made under a lock so that parallel runs share it
    local made="$template.$$"
    [ ! -d "$template" ] || return 0
    WINEPREFIX="$made" wineboot -i >/dev/null 2>&1 || fail "wineboot failed"
    WINEPREFIX="$made" wineserver -w
    [ -f "$made/system.reg" ] || fail "wineboot made no prefix"
    # Wine links Documents, Desktop ... to the host's folders; nothing a test does may reach those.
    find "$made/drive_c/users" -type l -delete -execdir mkdir {} ';'
    mv "$made" "$template"
}

make_prefix() {
    template="$cache/prefix-own-fonts-$(wine --version | tr -c 'A-Za-z0-9.\n' _)"
    (flock 9; make_template) 9>"$cache/lock"
    # Programs are hard-linked, for speed; whatever a run may rewrite in place is copied.
    cp -al "$template" "$WINEPREFIX"
    local part
    for part in system.reg user.reg userdef.reg drive_c/users drive_c/windows/win.ini drive_c/windows/system.ini; do
        rm -rf "${WINEPREFIX:?}/$part"
        cp -a "$template/$part" "$WINEPREFIX/$part"
    done
}

choose_desktop() {
    # Written into the file while no server runs: `wine reg add` would be the first program of this prefix, and the
    # first program after the Desktop key is set opens that desktop itself, without a taskbar.
    printf '\n[Software\\\\Wine\\\\Explorer] 1\n"Desktop"="shell"\n' >>"$WINEPREFIX/user.reg"
    printf '\n[Software\\\\Wine\\\\Explorer\\\\Desktops] 1\n"shell"="%s"\n' "$size" >>"$WINEPREFIX/user.reg"
}

taskbar_is_drawn() {  # the last twelve rows hold the Start button's text and edges: more than three colours
    local row=$((${size%x*} * 4))
    [ "$(tail -c $((row * 12)) "$DESKTOP_FRAMEBUFFER" | od -An -v -tx4 -w4 | sort -u | head -4 | wc -l)" -gt 3 ]
}

start_screen
choose_fonts
[ -n "${WINEPREFIX:-}" ] || export WINEPREFIX="$run/prefix"
[ -d "$WINEPREFIX" ] || make_prefix
wineserver -k >/dev/null 2>&1 || true
choose_desktop
# Programs opened on the desktop inherit this folder: a Save dialog starts there, and not in the caller's.
(cd "$WINEPREFIX/drive_c" && exec wine explorer "/desktop=shell,$size") </dev/null >/dev/null 2>&1 &
wait_for 60 "the desktop did not appear" taskbar_is_drawn
status=0
"$@" || status=$?
exit "$status"
