# Run by mmdebstrap as a hook before anything is fetched: $1 is the new root file system, $MMDEBSTRAP_APT_CONFIG
# the configuration of its apt. $packages and $kernel (empty for one of the user's own) come before this text. Says at once
# what the release does not have or cannot install, in apt's own words.
set -eu
export LC_ALL=C APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
# mmdebstrap's own update, a moment later, finds the lists there.
apt-get --quiet --quiet update >&2
echo "stasis: looking the packages up" >&2
if [ -n "$kernel" ] && ! apt-cache show "$kernel" >/dev/null 2>&1; then
  echo "E: this Debian release has no package $kernel" >&2
  exit 1
fi
# shellcheck disable=SC2086
apt-get --quiet --simulate --option APT::Install-Recommends=false install $packages >/dev/null
