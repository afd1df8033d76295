package external

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/onsi/ginkgo/v2"
	"github.com/onsi/ginkgo/v2/types"
	"github.com/onsi/gomega"
	"k8s.io/kubernetes/test/e2e/framework"
	"k8s.io/kubernetes/test/e2e/framework/testfiles"
	"k8s.io/kubernetes/test/e2e/storage/external"
	e2etestingmanifests "k8s.io/kubernetes/test/e2e/testing-manifests"

	"github.com/volsim/volsim/cluster"
	_ "github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/watchdir"
)

var devicesFlag = flag.String("devices", "array", "what backs the volumes: array or loop")

func TestExternalStorage(t *testing.T) {
	kubectl := newKubectl(t)
	suite := configure(t, kubectl)
	reports := run(t, suite, kubectl)
	out, err := os.Create("/tmp/external-" + *devicesFlag + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	for _, r := range reports {
		if r.LeafNodeType != types.NodeTypeIt {
			continue
		}
		counts[r.State.String()]++
		out.WriteString(r.State.String() + "\t" + r.FullText() + "\t" + r.RunTime.String() + "\t" + oneLine(r.Failure.Message) + "\n")
	}
	out.Close()
	t.Log(counts)
}

func oneLine(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '\n' || b[i] == '\t' {
			b[i] = ' '
		}
	}
	return string(b[:min(len(b), 600)])
}

const kubeconfig = `apiVersion: v1
kind: Config
clusters: [{name: volsim, cluster: {server: "https://volsim.invalid"}}]
contexts: [{name: volsim, context: {cluster: volsim, user: volsim}}]
current-context: volsim
users: [{name: volsim, user: {auth-provider: {name: volsim}}}]
`

// configure sets the flags of the framework and returns the configuration of the suite.
func configure(t *testing.T, k *kubectl) types.SuiteConfig {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := flag.NewFlagSet("e2e", flag.ContinueOnError)
	framework.RegisterCommonFlags(flags)
	framework.RegisterClusterFlags(flags)
	if err := flags.Parse([]string{
		"--kubeconfig", path, "--provider", "skeleton", "--num-nodes", "3", "--kubectl-path", k.path,
		"--allowed-not-ready-nodes", "0",
	}); err != nil {
		t.Fatal(err)
	}
	framework.AfterReadingAllFlags(&framework.TestContext)
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	testfiles.AddFileSource(testfiles.RootFileSource{Root: wd})
	testfiles.AddFileSource(e2etestingmanifests.GetE2ETestingManifestsFS())
	if err := external.AddDriverDefinition(filepath.Join("testdata", *devicesFlag+".yaml")); err != nil {
		t.Fatal(err)
	}
	gomega.RegisterFailHandler(framework.Fail)
	suite, _ := ginkgo.GinkgoConfiguration()
	suite.Timeout = 1000 * time.Hour // of the cluster's time
	return suite
}

// run runs the suite in a bubble and returns the reports of all tests.
func run(t *testing.T, suite types.SuiteConfig, k *kubectl) (reports []types.SpecReport) {
	ginkgo.ReportAfterSuite("results", func(r ginkgo.Report) { reports = r.SpecReports })
	defer func() {
		if r := recover(); r != nil {
			t.Log(r)
		}
	}()
	watchdir.Off.Store(true)
	defer watchdir.Off.Store(false)
	synctest.Test(t, func(t *testing.T) {
		c, err := cluster.New(cluster.Config{
			Nodes: 3, Devices: cluster.Devices(*devicesFlag), NodeLeases: true, Containers: cluster.ShellContainers, Snapshots: true,
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
		current = connect(t, c)
		defer current.close()
		config, err := framework.LoadConfig()
		if err != nil {
			t.Fatal(err)
		}
		k.config = config
		ginkgo.GinkgoWriter.TeeTo(k)
		begin := c.Host().Now()
		ginkgo.RunSpecs(t, "storage", suite, types.ReporterConfig{NoColor: true, Succinct: true, SilenceSkips: true})
		t.Logf("%s of the cluster's time", c.Host().Now().Sub(begin))
	})
	return
}
