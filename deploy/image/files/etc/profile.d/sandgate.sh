# A login shell resets PATH in /etc/profile; this brings the image's environment back.
set -a
. /etc/environment
set +a
