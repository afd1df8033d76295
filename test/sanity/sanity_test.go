package sanity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
)

const mebibyte = 1 << 20

// TestSanity runs all specs against each driver that this machine supports.
func TestSanity(t *testing.T) {
	program := build(t)
	var subjects []*subject
	for _, s := range drivers() {
		if why := s.missing(); why != "" {
			t.Logf("%s skipped: %s", s.name, why)
			continue
		}
		s.start(t, program)
		subjects = append(subjects, s)
	}
	for _, s := range subjects {
		ginkgo.Describe(s.name, func() { sanity.GinkgoTest(s.config) })
	}
	var report types.Report
	ginkgo.ReportAfterSuite("keep", func(r types.Report) { report = r })
	gomega.RegisterFailHandler(ginkgo.Fail)
	ginkgo.RunSpecs(t, "CSI sanity")
	for _, s := range subjects {
		s.checkSkips(t, report.SpecReports)
	}
}

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "volsim")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/volsim")
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build volsim: %v\n%s", err, out)
	}
	return program
}

// checkSkips compares the skipped specs with the listed reasons.
func (s *subject) checkSkips(t *testing.T, specs types.SpecReports) {
	t.Helper()
	ran, left := 0, map[string]string{}
	for _, spec := range specs {
		texts := spec.ContainerHierarchyTexts
		if spec.LeafNodeType != types.NodeTypeIt || len(texts) == 0 || texts[0] != s.name {
			continue
		}
		name := strings.Join(append(slices.Clone(texts[1:]), spec.LeafNodeText), " / ")
		switch spec.State {
		case types.SpecStateSkipped, types.SpecStatePending:
			left[name] = spec.Failure.Message
		default:
			ran++
		}
	}
	if ran == 0 {
		t.Errorf("%s: no spec ran", s.name)
	}
	reasons := []string{fmt.Sprintf("%s: %d specs ran, %d skipped", s.name, ran, len(left))}
	used := map[string]bool{}
	for name, said := range left {
		why, listed := s.skips[said]
		if !listed {
			t.Errorf("%s: skipped without a listed reason: %s (%q)", s.name, name, said)
			continue
		}
		used[said] = true
		reasons = append(reasons, fmt.Sprintf("  %s: %s", name, why))
	}
	for said := range s.skips {
		if !used[said] {
			t.Errorf("%s: unused reason: %q", s.name, said)
		}
	}
	slices.Sort(reasons[1:])
	t.Log(strings.Join(reasons, "\n"))
}

// isRoot reports whether this process can create devices.
func isRoot() bool { return os.Geteuid() == 0 }
