#!/bin/bash
# A fence agent for the machines of kubelab, whose control port stands in the option
# "control". It takes a second to switch one, as a BMC does.
set -u
while IFS='=' read -r name value; do
	case $name in
	action) action=$value ;;
	machine) machine=$value ;;
	control) control=$value ;;
	esac
done

# ask METHOD PATH leaves the lab's answer in $answer.
ask() {
	exec 3<>"/dev/tcp/${control%:*}/${control##*:}" || exit 1
	printf '%s %s HTTP/1.0\r\nContent-Length: 0\r\n\r\n' "$1" "$2" >&3
	answer=$(cat <&3)
	exec 3>&-
	[[ $answer == HTTP/1.?\ 200* ]] || { echo "the lab says: $answer" >&2; exit 1; }
}

case $action in
on | off)
	sleep 1
	ask POST "/nodes/$machine/$action"
	;;
status)
	ask GET /nodes
	[[ $answer =~ \"$machine\":\{\"state\":\"([a-z]+)\" ]] || { echo "there is no machine $machine" >&2; exit 1; }
	[[ ${BASH_REMATCH[1]} == off ]] && { echo 'Status: OFF'; exit 2; }
	echo 'Status: ON'
	;;
*)
	echo "unrecognised action '$action'" >&2
	exit 1
	;;
esac
