# Sourced by run and run_suite: makes the Python environment build/upstream with the packages of
# requirements.txt, the first time and when they change, and sets `here`, `root`, `environment`,
# `python` and `log`. Without a package index it says that nothing ran (`what`), and exits with 0.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
environment=$root/build/upstream
log=$root/build/upstream.log
skip() {
  printf 'NOT RUN: %s: %s\n' "$what" "$1"
  [ -z "${DTR_NOT_RUN:-}" ] || printf '%s: %s\n' "$what" "$1" >>"$DTR_NOT_RUN"
  exit 0
}

wanted=$(sha256sum <"$here/requirements.txt")
if [ "$(cat "$environment/ready" 2>/dev/null)" != "$wanted" ]; then
  rm -rf "$environment"
  mkdir -p "$(dirname "$environment")"
  python3 -m venv "$environment" >"$log" 2>&1 ||
    skip "python3 cannot make an environment (Debian: apt-get install python3-venv)"
  pip=("$environment/bin/pip" --disable-pip-version-check --retries 1 --timeout 20)
  "${pip[@]}" download --quiet --no-deps --dest "$environment/probe" numpy >"$log" 2>&1 ||
    skip "pip reaches no package index"
  echo "test/upstream: installing $(grep -v '^#' "$here/requirements.txt" | tr '\n' ' ')"
  "${pip[@]}" install --quiet -r "$here/requirements.txt" >"$log" 2>&1 || {
    tail -20 "$log" >&2
    echo "test/upstream: the packages of requirements.txt cannot be installed" >&2
    exit 1
  }
  echo "$wanted" >"$environment/ready"
fi
python=$environment/bin/python
