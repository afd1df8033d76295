package external

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	"k8s.io/kubernetes/test/e2e/storage/external"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	"github.com/volsim/volsim/cluster"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/watchdir"
	"github.com/volsim/volsim/test/conformance/suitebubble"
)

var (
	kindFlag   = flag.String("kind", "", "run the suite for one kind of devices only, with its output: array, loop or lvm")
	updateFlag = flag.Bool("update", false, "write the lists in testdata")
	servedFlag = flag.String("served", "", "run the suite against the cluster of this kubeconfig, such as that of volsim serve")
	driverFlag = flag.String("driver", "", "the driver definition for -served")
)

// reportVariable names the environment variable with the file that the reports are written to.
const reportVariable = "VOLSIM_EXTERNAL_REPORT"

// TestExternalStorage runs the suite for each kind of devices, in a process of its own since a process can run one suite
// only, and compares the results with the lists in testdata.
func TestExternalStorage(t *testing.T) {
	switch {
	case *servedFlag != "":
		runServed(t)
		return
	case *kindFlag != "":
		runKind(t, *kindFlag)
		return
	}
	for _, kind := range []string{"array", "loop", "lvm"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			requireDevices(t, kind)
			checkList(t, kind, runChild(t, kind))
		})
	}
}

// requireDevices skips a test whose devices this machine does not have.
func requireDevices(t *testing.T, kind string) {
	if kind == "array" {
		return
	}
	if _, err := exec.LookPath("mkfs.xfs"); err != nil {
		t.Skip("mkfs.xfs not found: install xfsprogs")
	}
	c, err := cluster.New(cluster.Config{Devices: cluster.Devices(kind), Dir: t.TempDir()})
	if err != nil {
		t.Skipf("devices %s: %v", kind, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// runChild runs the suite in another process, and returns the reports of its tests.
func runChild(t *testing.T, kind string) (reports []types.SpecReport) {
	file := filepath.Join(t.TempDir(), "reports.json")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestExternalStorage$", "-kind="+kind)
	cmd.Env = append(os.Environ(), reportVariable+"="+file)
	begin := time.Now()
	output, failed := cmd.CombinedOutput()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("the suite has not ended: %v\n%s", failed, output)
	}
	if err := json.Unmarshal(data, &reports); err != nil {
		t.Fatal(err)
	}
	t.Logf("the suite took %s", time.Since(begin).Round(100*time.Millisecond))
	return reports
}

// checkList compares the results with the list of their kind.
func checkList(t *testing.T, kind string, reports []types.SpecReport) {
	all := entriesOf(kind, reports)
	got := format(all)
	if *updateFlag {
		if err := os.WriteFile(listFile(kind), []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(listFile(kind))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (-want +got):\n%s", listFile(kind), diff)
		for _, r := range reports {
			if r.Failed() && !strings.Contains(string(want), no+"\t"+strings.TrimPrefix(r.FullText(), prefix(kind))+"\n") {
				t.Logf("%s: %s\n%s", r.FullText(), r.Failure.Message, r.CapturedGinkgoWriterOutput)
			}
		}
	}
	row := fmt.Sprintf("| %s | %d | %d | %d |", kind, count(all, pass), count(all, no), count(all, skip))
	text, err := os.ReadFile("../../../docs/drivers.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), row) {
		t.Errorf("docs/drivers.md does not have the row %q", row)
	}
}

// runKind runs the suite for a kind of devices in this process.
func runKind(t *testing.T, kind string) {
	kubectl := newKubectl(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	suite := configure(t, "testdata/"+kind+".yaml", "--kubeconfig", path, "--kubectl-path", kubectl.path)
	var reports []types.SpecReport
	ginkgo.ReportAfterSuite("results", func(r ginkgo.Report) { reports = r.SpecReports })
	inBubble(t, cluster.Devices(kind), suite, kubectl)
	if file := os.Getenv(reportVariable); file != "" {
		data, err := json.Marshal(reports)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// runServed runs the suite against a cluster that another process serves, in the time of this machine.
func runServed(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Fatal("kubectl not found: the suite executes commands in containers with it")
	}
	explain = func() string { return "" }
	suite := configure(t, *driverFlag, "--kubeconfig", *servedFlag, "--kubectl-path", kubectl)
	ginkgo.RunSpecs(t, "storage", suite, types.ReporterConfig{NoColor: true, Succinct: true, SilenceSkips: true})
}

// kubeconfig is that of the suite: its authentication provider replaces the transport.
const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: volsim, cluster: {server: "https://volsim.invalid"}}]
contexts: [{name: volsim, context: {cluster: volsim, user: volsim}}]
current-context: volsim
users: [{name: volsim, user: {auth-provider: {name: volsim}}}]
`

// configure sets the flags of the framework and returns the configuration of the suite.
func configure(t *testing.T, driver string, args ...string) types.SuiteConfig {
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	framework.RegisterCommonFlags(flags)
	framework.RegisterClusterFlags(flags)
	if err := flags.Parse(append(args, "--provider", "skeleton", "--num-nodes", "3")); err != nil {
		t.Fatal(err)
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testfiles.AddFileSource(testfiles.RootFileSource{Root: wd})
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	if err := external.AddDriverDefinition(driver); err != nil {
		t.Fatal(err)
	}
	gomega.RegisterFailHandler(framework.Fail)
	suite, _ := ginkgo.GinkgoConfiguration()
	suite.Timeout = 1000 * time.Hour // of the cluster's time
	if len(suite.FocusStrings) == 0 {
		suite.FocusStrings = []string{"External Storage"}
	}
	return suite
}

// explain says what the cluster waits for.
var explain func() string

func init() {
	framework.NewFrameworkExtensions = append(framework.NewFrameworkExtensions, func(*framework.Framework) {
		ginkgo.JustAfterEach(func() {
			if ginkgo.CurrentSpecReport().Failed() {
				ginkgo.GinkgoWriter.Println("events:\n" + explain())
			}
		})
	})
}

// eventsOf returns the events of all namespaces.
func eventsOf(c *cluster.Cluster) string {
	all, err := c.Client().CoreV1().Events("").List(context.Background(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for i := range all.Items {
		e := &all.Items[i]
		fmt.Fprintf(&b, "event %s %s %s/%s %s: %s (%d)\n", e.LastTimestamp.Format(time.TimeOnly), e.InvolvedObject.Kind,
			e.Namespace, e.InvolvedObject.Name, e.Reason, e.Message, e.Count)
	}
	return b.String()
}

// inBubble runs the suite and its cluster in a bubble.
func inBubble(t *testing.T, devices cluster.Devices, suite types.SuiteConfig, k *kubectl) {
	watchdir.Off.Store(true)
	defer watchdir.Off.Store(false)
	defer suitebubble.CheckLeaks(t)
	synctest.Test(t, func(t *testing.T) {
		cfg := cluster.Config{
			Nodes: 3, Devices: devices, NodeLeases: true, Containers: cluster.ShellContainers, Snapshots: true,
			StorageCapacity: time.Minute,
		}
		if devices == cluster.Array {
			cfg.VolumesPerNode = 30
		}
		c, err := cluster.New(cfg)
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
		current = connect(t, c)
		defer current.close()
		explain = func() string { return eventsOf(c) }
		if k.config, err = framework.LoadConfig(); err != nil {
			t.Fatal(err)
		}
		ginkgo.GinkgoWriter.TeeTo(k)
		begin := c.Host().Now()
		ginkgo.RunSpecs(t, "storage", suite, types.ReporterConfig{NoColor: true, Succinct: true, SilenceSkips: true})
		t.Logf("%s of the cluster's time", c.Host().Now().Sub(begin))
	})
}
