# A login shell resets PATH in /etc/profile. This restores the image's environment.
set -a
. /etc/environment
set +a
