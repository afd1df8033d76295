package trace

import (
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// DescribeAny returns what a record means, as Describe does, for every record: also for reads,
// deliveries, work and writes without a relevant change.
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
		return "starts work on " + r.Object
	case KindTimer:
		return "handles its timer"
	case KindSleep:
		return "wakes after " + r.Object
	case KindWait:
		return "resumes after waiting for " + r.Object
	default:
		return r.Verb + " " + r.Object
	}
}

// describeRequest describes the requests that Describe leaves out.
func describeRequest(r Record) string {
	verb, _, _ := strings.Cut(r.Verb, "/")
	noun := ObjectName(r.Object)
	resource, within, _ := strings.Cut(r.Object, "/")
	switch {
	case apierrors.IsNotFound(r.Err) && verb == "get":
		return fmt.Sprintf("gets %s: not found", noun)
	case apierrors.IsNotFound(r.Err):
		return fmt.Sprintf("cannot %s %s: not found", verb, noun)
	case apierrors.IsAlreadyExists(r.Err):
		return fmt.Sprintf("cannot create %s: already exists", noun)
	case r.Err != nil:
		return fmt.Sprintf("gets an error for its %s of %s: %v", r.Verb, noun, r.Err)
	case verb == "get":
		return "reads " + noun
	case verb == "list" || verb == "watch":
		return describeListOrWatch(verb, r.Detail, plural(resource), within)
	}
	if r.After != nil && (r.Gone || strings.HasPrefix(verb, "delete")) {
		return describeDeleteOf(r, noun)
	}
	if words := Changes(r.Before, r.After); len(words) > 0 {
		return fmt.Sprintf("changes %s: %s", noun, strings.Join(words, ", "))
	}
	if r.Before == nil && r.After != nil {
		return "creates " + objectOf(r)
	}
	if words := fieldChanges(r.Before, r.After); r.After != nil && len(words) > 0 {
		return fmt.Sprintf("changes %s: %s", noun, strings.Join(words, ", "))
	}
	return fmt.Sprintf("writes %s without a relevant change", noun)
}

// describeListOrWatch describes a request for the objects of a resource.
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
		return fmt.Sprintf("lists the %s%s: none found", nouns, of)
	default:
		return fmt.Sprintf("lists the %s%s: %s found", nouns, of, items)
	}
}

// describeDelivery describes a delivery to a cache.
func describeDelivery(r Record) string {
	switch r.Verb {
	case "LIST":
		items, _, _ := strings.Cut(r.Detail, " ")
		return fmt.Sprintf("fills its cache with a list of the %s: %s", plural(r.Object), items)
	case "ADDED":
		return fmt.Sprintf("sees %s added", ObjectName(r.Object))
	case "DELETED":
		return fmt.Sprintf("sees %s deleted", ObjectName(r.Object))
	default:
		return fmt.Sprintf("sees %s modified", ObjectName(r.Object))
	}
}

// resourceNames holds the words for resources that are not their singular.
var resourceNames = map[string]string{
	"persistentvolumeclaims": "claim", "persistentvolumes": "volume", "volumeattachments": "attachment",
	"storageclasses": "storage class", "csinodes": "CSI node", "csidrivers": "CSI driver",
	"volumesnapshots": "snapshot", "volumesnapshotcontents": "snapshot content", "volumesnapshotclasses": "snapshot class",
	"volumegroupsnapshots": "group snapshot", "volumegroupsnapshotcontents": "group snapshot content",
	"volumegroupsnapshotclasses": "group snapshot class",
}

// ObjectName returns the object of an API action in words: "claim default/data" for
// "persistentvolumeclaims/default/data".
func ObjectName(object string) string {
	resource, name, _ := strings.Cut(object, "/")
	resource, _, _ = strings.Cut(resource, ".") // without the group
	word, ok := resourceNames[resource]
	if !ok {
		word = singular(resource)
	}
	return strings.TrimSpace(word + " " + name)
}

// singular returns the singular of a resource.
func singular(word string) string {
	if stem, is := strings.CutSuffix(word, "ies"); is {
		return stem + "y"
	}
	for _, ending := range []string{"sses", "xes", "tches", "shes"} {
		if strings.HasSuffix(word, ending) {
			return strings.TrimSuffix(word, "es")
		}
	}
	return strings.TrimSuffix(word, "s")
}

func plural(resource string) string {
	word := ObjectName(resource)
	if stem, is := strings.CutSuffix(word, "y"); is && !strings.ContainsAny(stem[max(0, len(stem)-1):], "aeiou") {
		return stem + "ies"
	}
	for _, ending := range []string{"ss", "x", "tch", "sh"} {
		if strings.HasSuffix(word, ending) {
			return word + "es"
		}
	}
	return word + "s"
}
