package trace

import (
	"fmt"
	"strings"
)

// Process returns the name of the process, or of the user, that a task belongs to: "pvcontroller"
// for "pvcontroller/claims".
func Process(task string) string {
	name, _, _ := strings.Cut(task, "/")
	return name
}

// DescribeTask returns the name of a task in words: "the pod cache of pvcprotection",
// "pvcontroller/claims", "alice". It leaves out the number that distinguishes tasks of the same
// name.
func DescribeTask(task string) string {
	process, name, within := strings.Cut(TrimTaskNumber(task), "/")
	if resource, is := strings.CutPrefix(name, "cache "); is {
		return fmt.Sprintf("the %s cache of %s", ObjectName(resource), process)
	}
	if !within || name == "" || name == process {
		return process
	}
	if i := strings.Index(name, " kubernetes.io/"); i >= 0 { // an operation on one volume
		name = name[:i]
	}
	return process + "/" + name
}

// TrimTaskNumber returns the name of a task without the number that distinguishes tasks of the same
// name.
func TrimTaskNumber(task string) string {
	at := strings.LastIndex(task, "#")
	if at < 0 || at < strings.Index(task, "/") { // "pvcontroller#2/claims" is a replica
		return task
	}
	return task[:at]
}

// DescribeEvent returns a sentence about a record of [KindEvent], such as "crash attacher".
func DescribeEvent(verb, object string) string {
	first, rest, _ := strings.Cut(object, " ")
	switch verb {
	case "crash":
		if _, behind, lags := strings.Cut(rest, "with "); lags {
			resource, n, _ := strings.Cut(strings.TrimSuffix(behind, " behind"), " ")
			return fmt.Sprintf("%s crashes and restarts, and its first list of %ss is %s old", first,
				ObjectName(resource), eventCount(n))
		}
		return first + " crashes and restarts"
	case "stop":
		if node, is := driverNode(object); is {
			return fmt.Sprintf("the driver on %s stops; its mounts remain", node)
		}
		return first + " crashes and stays down"
	case "start":
		if node, is := driverNode(object); is {
			return fmt.Sprintf("the driver on %s starts", node)
		}
		return first + " starts"
	case "replicate":
		return fmt.Sprintf("a second %s starts: both are active", first)
	case "retire":
		return first + " stops: one replica remains"
	case "relist":
		return fmt.Sprintf("the watch of %s on %ss breaks, and it lists again", first, ObjectName(rest))
	case "expire":
		return fmt.Sprintf("the API server drops the old events of %ss: watches that lag must list again",
			ObjectName(object))
	case "reboot":
		return first + " reboots: its kubelet restarts, and its mounts are lost"
	case "partition":
		return first + " is partitioned: its kubelet is down, its mounts remain"
	case "restore":
		return first + " is restored"
	case "tick":
		return "the clock advances, although a task could run"
	default:
		return strings.TrimSpace(verb + " " + object)
	}
}

// driverNode returns NODE of "driver(NODE)".
func driverNode(of string) (node string, is bool) {
	node, is = strings.CutPrefix(of, "driver(")
	return strings.TrimSuffix(node, ")"), is
}

func eventCount(n string) string {
	if n == "1" {
		return "1 event"
	}
	return n + " events"
}
