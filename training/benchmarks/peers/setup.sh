#!/usr/bin/env bash
# Makes the virtual environments, the data and the reference model of the other libraries.
#   training/benchmarks/peers/setup.sh DIR
# Variables: PYTHON (default python3), MULTI30K (directory of the raw .gz files), MINUTES (default 5).
set -euo pipefail
scripts=$(cd "$(dirname "$0")" && pwd)
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
mkdir -p "$1"
PEERS=$(cd "$1" && pwd)
export PEERS
cd "$PEERS"

# An environment that cannot be made is reported; its libraries are then left out of the comparison.
environment() {
  local name=$1
  shift
  [ -e "$name/.complete" ] && return
  echo "installing $name: $*"
  if "${PYTHON:-python3}" -m venv --clear "$name" && "$name/bin/pip" install --quiet "$@"; then
    touch "$name/.complete"
  else
    echo "$name could not be installed" >&2
  fi
}

environment pytorch torch==2.13.0 transformers==5.22.2 ctranslate2==4.8.4 sentencepiece numpy setuptools
environment keras tensorflow==2.21.0 keras==3.15.1 keras-hub==0.32.0
environment opennmt "OpenNMT-tf[tensorflow]==2.32.0" # resolves to TensorFlow 2.12 on Python 3.11
environment joeynmt torch==2.13.0 joeynmt==2.3.0 setuptools importlib_metadata

if [ ! -e data/test.npz ]; then
  if [ -z "${MULTI30K:-}" ]; then
    MULTI30K=$PEERS/multi30k
    mkdir -p "$MULTI30K"
    for name in train val test_2016_flickr; do
      for language in en de; do
        curl --fail --silent --show-error --location --output "$MULTI30K/$name.$language.gz" \
          "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw/$name.$language.gz"
      done
    done
  fi
  pytorch/bin/python "$scripts/prepare_data.py" "$MULTI30K"
fi
if [ ! -e reference/tiny.npz ]; then
  pytorch/bin/python "$scripts/train_reference.py" --minutes "${MINUTES:-5}" --tokens 1024
fi
if [ ! -e reference/base.npz ]; then
  # The base model is not trained: with a forced length, weights do not matter for the speed.
  pytorch/bin/python "$scripts/train_reference.py" --config base --minutes 0
fi
echo "ready: $PEERS"
