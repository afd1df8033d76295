package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore/session"
	"github.com/volsim/volsim/sim"
)

// complete completes a line at a prompt, as far as the candidates agree. If that adds nothing, it
// prints them.
func (i *interpreter) complete(line string, pos int, out io.Writer) (newLine string, newPos int, ok bool) {
	from, all := completions(i.session, line[:pos])
	typed := line[from:pos]
	candidates := slices.DeleteFunc(slices.Clone(all), func(word string) bool { return !strings.HasPrefix(word, typed) })
	if len(candidates) == 0 {
		return line, pos, true
	}
	common := candidates[0]
	for _, word := range candidates {
		for !strings.HasPrefix(word, common) {
			common = common[:len(common)-1]
		}
	}
	switch {
	case len(candidates) == 1 && !strings.HasSuffix(common, "="):
		common += " "
	case len(candidates) > 1 && common == typed:
		fmt.Fprintln(out, strings.Join(candidates, "  "))
	}
	return line[:from] + common + line[pos:], from + len(common), true
}

// completions returns the candidates for the end of a line, and where that end begins.
func completions(s *session.Session, text string) (from int, candidates []string) {
	verb, rest, found := strings.Cut(text, " ")
	if !found {
		return 0, allVerbs()
	}
	from = strings.LastIndex(text, " ") + 1
	words := strings.Fields(text[:from])
	switch {
	case verb == "step" || verb == "hold" || verb == "release": // names of tasks have spaces
		from, candidates = len(verb)+1, tasksFor(s, verb)
	case verb == "let":
		from, candidates = len(verb)+1, s.PossibleEvents()
	case slices.Contains(cluster.EventKinds, verb):
		from = len(verb) + 1
		for _, event := range s.PossibleEvents() {
			if target, ok := strings.CutPrefix(event, verb+" "); ok {
				candidates = append(candidates, target)
			}
		}
	case verb == "request" && len(words) == 1:
		candidates = []string{"POST", "PUT", "PATCH", "DELETE"}
	case verb == "help" && len(words) == 1:
		candidates = allVerbs()
	case verb == "until" && len(words) == 1:
		candidates = session.Calls()
	case verb == "until" && len(words) == 2:
		candidates = s.Cluster().Components()
	case verb == "fail" && len(words) == 1:
		candidates = kindsOfFaults()
	case verb == "fail" && len(words) == faultWords(rest)+1:
		candidates = s.Cluster().Components()
	case (verb == "cordon" || verb == "uncordon") && len(words) == 1:
		candidates = names(s, "nodes")
	default:
		candidates = wordsOfAct(s, words)
	}
	return from, candidates
}

func allVerbs() []string {
	var all []string
	for _, v := range verbs {
		all = append(all, v.verb)
	}
	return slices.Concat(all, cluster.EventKinds)
}

// tasksFor returns what "step", "hold" or "release" can name.
func tasksFor(s *session.Session, verb string) []string {
	var all []string
	switch verb {
	case "release":
		return s.Held()
	case "hold":
		all = s.Cluster().Components()
	}
	for _, o := range s.Next() {
		all = append(all, o.Task)
	}
	return slices.Compact(all)
}

func kindsOfFaults() []string {
	var all []string
	for _, kind := range sim.FaultKinds {
		all = append(all, string(kind))
	}
	return all
}

// faultWords returns the number of words of a fault: that of a driver has a code.
func faultWords(fault string) int {
	if strings.HasPrefix(fault, string(sim.FaultDriver)) {
		return 2
	}
	return 1
}

// resourceOf is the API resource of a kind of object.
var resourceOf = map[string]string{
	"claim": "persistentvolumeclaims", "volume": "persistentvolumes", "class": "storageclasses", "pod": "pods", "node": "nodes",
	"snapshot": "volumesnapshots.snapshot.storage.k8s.io", "groupsnapshot": "volumegroupsnapshots.groupsnapshot.storage.k8s.io",
}

// wordsOfAct returns the candidates for the word after the given words of an act.
func wordsOfAct(s *session.Session, words []string) []string {
	verb := words[0]
	i := slices.IndexFunc(verbs, func(v verbHelp) bool { return v.verb == verb })
	if i < 0 {
		return nil
	}
	if len(words) == 1 {
		var kinds []string
		for _, line := range verbs[i].syntax {
			if fields := strings.Fields(line); len(fields) > 1 {
				for _, kind := range strings.Split(fields[1], "|") {
					if resourceOf[kind] != "" && !slices.Contains(kinds, kind) {
						kinds = append(kinds, kind)
					}
				}
			}
		}
		if slices.ContainsFunc(verbs[i].syntax, func(line string) bool { return strings.HasPrefix(line, verb+" RESOURCE ") }) {
			kinds = append(kinds, "claim", "class", "groupsnapshot", "pod", "snapshot", "volume")
			slices.Sort(kinds)
			kinds = append(slices.Compact(kinds), customResources(s)...)
		}
		return kinds
	}
	kind := words[1]
	resource := resourceOf[kind]
	if slices.Contains(customResources(s), kind) {
		resource = kind
	}
	var all []string
	switch {
	case resource == "":
		return nil
	case len(words) == 2 && verb != "create":
		return names(s, resource)
	case len(words) == 2:
		return nil
	case kind == "snapshot" && verb == "create" || kind == "pod" && (verb == "create" || verb == "write" || verb == "read"):
		all = names(s, "persistentvolumeclaims")
	case verb == "wait" && resourceOf[kind] == "":
		return []string{"exists", "gone", "condition="}
	case verb == "wait":
		return map[string][]string{
			"claim": {"Bound", "Pending", "Lost", "gone"}, "volume": {"Available", "Bound", "Released", "Failed", "gone"},
			"pod": {"Running", "Pending", "Succeeded", "gone"}, "snapshot": {"ReadyToUse", "gone"}, "groupsnapshot": {"ReadyToUse", "gone"},
		}[kind]
	}
	for _, option := range optionsOf(verb, kind) {
		if option == "on=" || option == "node=" {
			for _, node := range names(s, "nodes") {
				all = append(all, option+node)
			}
			continue
		}
		all = append(all, option)
	}
	return all
}

// customResources returns the names of the custom resources that the world serves.
func customResources(s *session.Session) []string {
	var all []string
	for _, r := range s.Cluster().Server().Resources() {
		if name := r.Name + "." + r.Group; r.Custom != nil && !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// names returns the names of the objects of a resource, as acts name them; none if the world does not have it.
func names(s *session.Session, resource string) []string {
	if !s.Cluster().Server().Serves(resource) {
		return nil
	}
	var all []string
	for _, obj := range s.Cluster().Server().List(resource) {
		name := obj.GetName()
		if namespace := obj.GetNamespace(); namespace != "" && namespace != metav1.NamespaceDefault {
			name = namespace + "/" + name
		}
		all = append(all, name)
	}
	return all
}
