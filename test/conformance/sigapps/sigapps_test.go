package sigapps

import (
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	_ "k8s.io/kubernetes/test/e2e/apps" // the tests
	"k8s.io/kubernetes/test/e2e/framework"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/test/conformance/suitebubble"
)

// TestConformance compares the list of tests with upstream's and runs those that are listed as
// passing. The flag -ginkgo.focus selects others.
func TestConformance(t *testing.T) {
	containers, kubectl := newContainers(t)
	suite := configure(t, kubectl)
	listed := readList(t)
	checkList(t, listed)
	selected := len(suite.FocusStrings) > 0
	if !selected {
		for _, e := range listed {
			if e.verdict != no {
				suite.FocusStrings = append(suite.FocusStrings, regexp.QuoteMeta(e.name)+"$")
			}
		}
	}
	reports := map[string]types.SpecReport{}
	for _, report := range run(t, suite, containers) {
		reports[report.FullText()] = report
	}
	for _, e := range listed {
		report := reports[e.name]
		if ran := report.State != types.SpecStateSkipped || report.Failure.Message != ""; ran || e.verdict != no && !selected {
			t.Run(e.name, func(t *testing.T) { check(t, e, report, containers.touched[e.name]) })
		}
	}
}

// check compares the report of a test with its entry. annotated says whether the pods of the test
// got annotations.
func check(t *testing.T, e entry, report types.SpecReport, annotated bool) {
	t.Logf("%s of the cluster's time", report.RunTime)
	if report.State != types.SpecStatePassed {
		t.Fatalf("%s, at %s: %s", report.State, report.Failure.Location, report.Failure.Message)
	}
	want := pass
	if annotated {
		want = passAnnotated
	}
	if e.verdict != want {
		t.Errorf("%s lists it as %q; it is %q", listFile, e.verdict, want)
	}
}

// checkList checks that the list has upstream's conformance tests of sig-apps, and
// that the README counts them.
func checkList(t *testing.T, listed []entry) {
	names := map[string]bool{}
	for _, e := range listed {
		if names[e.name] {
			t.Errorf("%s lists %q twice", listFile, e.name)
		}
		names[e.name] = true
	}
	found := 0
	for _, spec := range ginkgo.PreviewSpecs("sig-apps").SpecReports {
		name := spec.FullText()
		if !strings.Contains(name, "[sig-apps]") || !strings.Contains(name, "[Conformance]") {
			continue
		}
		found++
		if !names[name] {
			t.Errorf("%s does not list %q", listFile, name)
		}
		delete(names, name)
	}
	for name := range names {
		t.Errorf("%s lists %q, which upstream does not have", listFile, name)
	}
	readme, err := os.ReadFile("../../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	sentence := fmt.Sprintf("%d end-to-end conformance tests of sig-apps, %d pass, %d of them with annotations",
		found, count(listed, pass)+count(listed, passAnnotated), count(listed, passAnnotated))
	if !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), sentence) {
		t.Errorf("README.md does not say %q", sentence)
	}
}

// kubeconfig makes the framework use http.DefaultTransport.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: volsim, cluster: {server: "http://volsim.invalid"}}]
contexts: [{name: volsim, context: {cluster: volsim, user: volsim}}]
current-context: volsim
users: [{name: volsim, user: {}}]
`

// configure sets the flags of the framework and returns the configuration of the suite.
func configure(t *testing.T, kubectl string) types.SuiteConfig {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	framework.RegisterCommonFlags(flags)
	framework.RegisterClusterFlags(flags)
	if err := flags.Parse([]string{
		"--kubeconfig", path, "--provider", "skeleton", "--num-nodes", "2", "--kubectl-path", kubectl,
	}); err != nil {
		t.Fatal(err)
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	gomega.RegisterFailHandler(framework.Fail)
	suite, _ := ginkgo.GinkgoConfiguration()
	suite.Timeout = 1000 * time.Hour // of the cluster's time
	return suite
}

// run runs the suite in a bubble and returns the reports of all tests.
func run(t *testing.T, suite types.SuiteConfig, containers *containers) (reports []types.SpecReport) {
	ginkgo.ReportAfterSuite("results", func(r ginkgo.Report) { reports = r.SpecReports })
	before := http.DefaultTransport
	defer func() { http.DefaultTransport = before }()
	defer suitebubble.CheckLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.New(cluster.Config{
			Devices: cluster.Array, NodeLeases: true, Interceptors: cluster.Interceptors{Client: containers.client},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := c.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		http.DefaultTransport = transport{c.RESTConfig().Transport, c.Client(), containers}
		begin := c.Host().Now()
		ginkgo.RunSpecs(t, "sig-apps", suite, types.ReporterConfig{NoColor: true, Succinct: true, SilenceSkips: true})
		t.Logf("%s of the cluster's time", c.Host().Now().Sub(begin))
	})
	return
}
