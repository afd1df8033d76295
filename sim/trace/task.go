package trace

import (
	"fmt"
	"strings"
)

// Process is the part of the world, or the user, that an actor belongs to: "pvcontroller" for "pvcontroller/claims".
func Process(actor string) string {
	name, _, _ := strings.Cut(actor, "/")
	return name
}

// DescribeTask names an actor in words: "the pod cache of pvcprotection", "pvcontroller/claims", "alice". What only tells it from
// others of its name is left out.
func DescribeTask(actor string) string {
	part, strand, within := strings.Cut(TrimTaskNumber(actor), "/")
	if resource, is := strings.CutPrefix(strand, "cache "); is {
		return fmt.Sprintf("the %s cache of %s", ObjectName(resource), part)
	}
	if !within || strand == "" || strand == part {
		return part
	}
	if i := strings.Index(strand, " kubernetes.io/"); i >= 0 { // an operation on one volume
		strand = strand[:i]
	}
	return part + "/" + strand
}

// TrimTaskNumber is an actor's name without the number that tells it from others of its name.
func TrimTaskNumber(actor string) string {
	at := strings.LastIndex(actor, "#")
	if at < 0 || at < strings.Index(actor, "/") { // "pvcontroller#2/claims" is a replica
		return actor
	}
	return actor[:at]
}

// DescribeEvent says in words what befell the world: a record of [KindEvent]'s verb and object, such as "crash attacher".
func DescribeEvent(verb, object string) string {
	first, rest, _ := strings.Cut(object, " ")
	switch verb {
	case "crash":
		if _, behind, lags := strings.Cut(rest, "with "); lags {
			resource, n, _ := strings.Cut(strings.TrimSuffix(behind, " behind"), " ")
			return fmt.Sprintf("%s is killed here and starts again, and its first list of %ss is %s old", first, ObjectName(resource), eventCount(n))
		}
		return first + " is killed here and starts again"
	case "stop":
		if node, is := driverNode(object); is {
			return fmt.Sprintf("the driver on %s ends here: what it has mounted stays", node)
		}
		return first + " is killed here and stays down"
	case "start":
		if node, is := driverNode(object); is {
			return fmt.Sprintf("the driver on %s starts again", node)
		}
		return first + " starts again"
	case "replicate":
		return fmt.Sprintf("a second %s starts beside the first: both are active", first)
	case "retire":
		return first + " ends: there is one of it again"
	case "relist":
		return fmt.Sprintf("the watch of %s on %ss breaks here, and it lists again", first, ObjectName(rest))
	case "expire":
		return fmt.Sprintf("the API server forgets the old events of %ss: who is behind has to list again", ObjectName(object))
	case "reboot":
		return first + " reboots here: its kubelet starts again, and its mounts are gone"
	case "lose":
		return first + " is lost here: its kubelet is down, its mounts stay"
	case "recover":
		return first + " comes back"
	case "tick":
		return "time moves on here, although something else could happen first"
	default:
		return strings.TrimSpace(verb + " " + object)
	}
}

// driverNode is the node of "driver(NODE)".
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
