#!/usr/bin/env bash
# Build a genuine 64-bit Windows CPython that runs under Wine, from package registries alone; print its python.exe.
#   windows-python.sh DIR [3.12]        then: wine DIR/python.exe -X utf8 script.py </dev/null 2>&1 | cat
# The wheel of panda3d for win_amd64 ships the official python3XX.dll with its extension modules and their DLLs; the
# pure-Python library is that of a Linux CPython of the same minor version; python.exe is a launcher built here.
# Give the process a real stdin and stdout (as above), or it ends with "can't initialize sys standard streams".
# Needs: apt-get install -y --no-install-recommends wine wine64 gcc-mingw-w64-x86-64 unzip
set -euo pipefail
dir=${1:?usage: windows-python.sh DIR [3.12]} version=${2:-3.12}
wheel=panda3d==1.10.16
tag=${version/./} recipe="$version $wheel"
cache=${AGENT_WINE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/agent-wine}

if [ "$(cat "$dir/.recipe" 2>/dev/null)" = "$recipe" ]; then
    echo "$dir/python.exe"
    exit 0
fi
if [ -e "$dir" ] && [ ! -f "$dir/.recipe" ] && [ -n "$(ls -A "$dir")" ]; then
    echo "windows-python.sh: $dir is something else and stays untouched" >&2
    exit 1
fi

linux_python=
for candidate in "python$version" "$HOME"/.pyenv/versions/"$version".*/bin/python3 \
        "$HOME"/.local/share/uv/python/cpython-"$version".*/bin/python3 /usr/local/bin/"python$version"; do
    # A shim may exist for a version that is not installed, so run it.
    if [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$version" ]; then
        linux_python=$candidate
        break
    fi
done
[ -n "$linux_python" ] || { echo "windows-python.sh: no Linux Python $version for its standard library" >&2; exit 1; }

mkdir -p "$cache/wheels" "$(dirname "$dir")"
# Built beside DIR and moved there at the end: an interrupted build never looks like a finished one.
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/DLLs"

wheel_file() { find "$cache/wheels" -name "panda3d-${wheel#*==}-cp$tag-cp$tag-win_amd64.whl"; }
[ -n "$(wheel_file)" ] || python3 -m pip download --quiet --no-deps --only-binary=:all: --platform win_amd64 \
    --implementation cp --python-version "$version" -d "$cache/wheels" "$wheel" >&2
unzip -q -j -o "$(wheel_file)" 'deploy_libs/*' -d "$work/DLLs"
rm -f "$work"/DLLs/api-ms-*  # Wine has its own
mv "$work/DLLs/python$tag.dll" "$work"/DLLs/VCRUNTIME140*.dll "$work/"

stdlib=$("$linux_python" -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')
# Dates are kept, so that compiled files stay valid: the Windows Python starts faster by a second.
cp -a "$stdlib" "$work/Lib"
chmod -R u+w "$work/Lib"
rm -rf "$work"/Lib/{site-packages,dist-packages,test,lib-dynload,ensurepip,idlelib,turtledemo} "$work"/Lib/config-*
mkdir "$work/Lib/site-packages"
"$linux_python" -m compileall -q "$work/Lib" >/dev/null 2>&1 || true

cat >"$work/launcher.c" <<C
#include <windows.h>
typedef int (*PyMain)(int, wchar_t **);
int wmain(int argc, wchar_t **argv) {
    HMODULE dll = LoadLibraryW(L"python$tag.dll");
    PyMain run = dll ? (PyMain)(void *)GetProcAddress(dll, "Py_Main") : 0;
    return run ? run(argc, argv) : 90;
}
C
x86_64-w64-mingw32-gcc -municode -O1 -o "$work/python.exe" "$work/launcher.c"
printf '%s\n' "$recipe" >"$work/.recipe"
chmod 755 "$work"
rm -rf "$dir"
mv "$work" "$dir"
echo "$dir/python.exe"
