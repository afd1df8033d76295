package trace

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DescribeAny says in plain words what a record means, as Tell does, and has a sentence for every record: also for reads,
// deliveries, work that is taken up, and writes that matter little.
func DescribeAny(r Record) string {
	if words, ok := Describe(r); ok {
		return words
	}
	switch r.Kind {
	case KindAPI:
		return describeRequest(r)
	case KindDriver:
		return "calls " + r.Verb
	case KindDeliver:
		return describeDelivery(r)
	case KindWork:
		return "takes up " + r.Object
	case KindTimer:
		return "has its timer fire"
	case KindSleep:
		return "wakes after " + r.Object
	case KindWait:
		return "goes on after it has waited for " + r.Object
	default:
		return r.Verb + " " + r.Object
	}
}

// describeRequest tells of the requests that Tell leaves out.
func describeRequest(r Record) string {
	verb, _, _ := strings.Cut(r.Verb, "/")
	noun := ObjectName(r.Object)
	resource, within, _ := strings.Cut(r.Object, "/")
	switch {
	case apierrors.IsNotFound(r.Err) && verb == "get":
		return fmt.Sprintf("looks for %s: there is none", noun)
	case apierrors.IsNotFound(r.Err):
		return fmt.Sprintf("is too late to %s %s, which is gone", verb, noun)
	case apierrors.IsAlreadyExists(r.Err):
		return fmt.Sprintf("is too late to create %s, which is there already", noun)
	case r.Err != nil:
		return fmt.Sprintf("is refused its %s of %s: %v", r.Verb, noun, r.Err)
	case verb == "get":
		return "reads " + noun
	case verb == "list" || verb == "watch":
		return describeListOrWatch(verb, r.Detail, plural(resource), within)
	}
	if words := Changes(r.Before, r.After); len(words) > 0 {
		return fmt.Sprintf("changes %s: %s", noun, strings.Join(words, ", "))
	}
	return fmt.Sprintf("writes %s, of which nothing changes that matters here", noun)
}

// describeListOrWatch tells of a request for the objects of a resource.
func describeListOrWatch(verb, detail, nouns, namespace string) string {
	of := ""
	if namespace != "" {
		of = " of " + namespace
	}
	items, _, listed := strings.Cut(detail, " items")
	switch {
	case !listed:
		return fmt.Sprintf("%ses the %s%s", verb, nouns, of)
	case items == "0":
		return fmt.Sprintf("lists the %s%s: there are none", nouns, of)
	default:
		return fmt.Sprintf("lists the %s%s: there are %s", nouns, of, items)
	}
}

// describeDelivery tells what a cache takes in.
func describeDelivery(r Record) string {
	switch r.Verb {
	case "LIST":
		items, _, _ := strings.Cut(r.Detail, " ")
		return fmt.Sprintf("fills its cache with a list of the %s: %s", plural(r.Object), items)
	case "ADDED":
		return fmt.Sprintf("hears that %s is there", ObjectName(r.Object))
	case "DELETED":
		return fmt.Sprintf("hears that %s is gone", ObjectName(r.Object))
	default:
		return fmt.Sprintf("hears that %s has changed", ObjectName(r.Object))
	}
}

// resourceNames are words for the resources that matter most.
var resourceNames = map[string]string{
	"persistentvolumeclaims": "claim", "persistentvolumes": "volume", "volumeattachments": "attachment",
	"storageclasses": "storage class", "csinodes": "CSI node", "csidrivers": "CSI driver",
}

// ObjectName is a word for the object of an action on the API server, and its name: "claim default/data" for
// "persistentvolumeclaims/default/data".
func ObjectName(object string) string {
	resource, name, _ := strings.Cut(object, "/")
	word, ok := resourceNames[resource]
	if !ok {
		word = strings.TrimSuffix(resource, "s")
	}
	return strings.TrimSpace(word + " " + name)
}

func plural(resource string) string {
	word := ObjectName(resource)
	if strings.HasSuffix(word, "ss") {
		return word + "es"
	}
	return word + "s"
}
