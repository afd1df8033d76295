package external

import (
	"cmp"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

// Verdicts.
const (
	pass = "pass"
	skip = "skip" // the suite skips it, since the driver has not said that it is capable of it
	no   = "no"   // it does not pass
)

// An entry says whether a test passes, and if not why.
type entry struct{ verdict, name, why string }

// whyNot are the reasons of the tests that do not pass, by driver and name. The first that matches counts.
var whyNot = []struct{ driver, name, why string }{
	{".*", `any volume data source`, "It runs a populator, whose program is in an image."},
	{
		"loop|lvm", `VolumeGroupSnapshottable should create snapshots for StatefulSet`,
		"It asks for volumes of 1 MiB and restores their snapshots into claims of 1 MiB, but the least size of the driver is more.",
	},
	{
		"lvm", `volume and its clone from pods on the same node`,
		"The driver refuses to copy a block volume that a pod uses, without device-mapper.",
	},
	{
		"lvm", `correct filesystem size when restoring snapshot`,
		"A snapshot is on the node of its volume, and the scheduler may choose another one again and again.",
	},
	{"lvm", `volume-modify-stress`, "It changes the class of claims that are not bound yet, since their binding is delayed."},
}

// skipWhy shortens the suite's reasons for a skipped test.
var skipWhy = regexp.MustCompile(`(?s)^(?:Driver "?[^ ]*csi\.volsim\.dev"? )?(.*?)(?: - skipping| -- skipping|: 'error reading.*)?$`)

// listFile returns the file with the list of a driver.
func listFile(kind string) string { return filepath.Join("testdata", kind+".txt") }

// entriesOf returns the results of the tests, sorted.
func entriesOf(kind string, reports []types.SpecReport) []entry {
	var all []entry
	for _, r := range reports {
		e := entry{pass, strings.TrimPrefix(r.FullText(), prefix(kind)), ""}
		switch {
		case !strings.HasPrefix(r.FullText(), prefix(kind)):
			continue
		case r.State == types.SpecStateSkipped:
			e.verdict, e.why = skip, skipWhy.FindStringSubmatch(r.Failure.Message)[1]
		case r.State != types.SpecStatePassed:
			e.verdict = no
		}
		for _, reason := range whyNot {
			if e.verdict == no && e.why == "" && matches("^("+reason.driver+")$", kind) && matches(reason.name, e.name) {
				e.why = reason.why
			}
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(order(a.verdict), order(b.verdict)), cmp.Compare(a.why, b.why), cmp.Compare(a.name, b.name))
	})
	return all
}

// prefix is what the names of all tests of a driver begin with.
func prefix(kind string) string { return "External Storage [Driver: " + kind + ".csi.volsim.dev] " }

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

func order(verdict string) int { return slices.Index([]string{pass, no, skip}, verdict) }

// format returns a list as text: a paragraph for each reason.
func format(all []entry) string {
	var b strings.Builder
	for i, e := range all {
		if i == 0 || all[i-1].verdict != e.verdict || all[i-1].why != e.why {
			if i > 0 {
				b.WriteString("\n")
			}
			if e.why != "" {
				fmt.Fprintf(&b, "# %s\n", e.why)
			}
		}
		fmt.Fprintf(&b, "%s\t%s\n", e.verdict, e.name)
	}
	return b.String()
}

// count returns the number of tests with a verdict.
func count(all []entry, verdict string) (n int) {
	for _, e := range all {
		if e.verdict == verdict {
			n++
		}
	}
	return n
}
