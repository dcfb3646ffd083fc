#!/bin/sh
# Installs jars into the user's folder of jars, which is on the class path of Java's kernels and
# programs: files NAME.jar in $0, and the jars of GROUP:ARTIFACT:VERSION with all their
# dependencies, from $0, a folder like a Maven repository, or, if SANDGATE_INDEX is not empty, also
# from a repository.
jars=$HOME/.local/share/java
mkdir -p "$jars" || exit
for p; do
	shift
	case $p in
	*.jar)
		[ -f "$0/$p" ] || { echo "there is no file $p among the packages" >&2; exit 1; }
		cp "$0/$p" "$jars/" || exit
		;;
	*) set -- "$@" "$p" ;;
	esac
done
[ $# -gt 0 ] || exit 0
[ ! -d "$0" ] || set -- "file:$0/" "$@"
[ -z "$SANDGATE_INDEX" ] || set -- "${MAVEN_REPOSITORY:-https://repo.maven.apache.org/maven2}" "$@"
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp /opt/sandgate/langs/java/driver.jar sandgate.driver.Maven "$jars" "$@"
