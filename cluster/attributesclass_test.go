package cluster_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

// attributesClass is the manifest of a class with one parameter.
func attributesClass(driver, name, key, value string) string {
	return fmt.Sprintf(`
apiVersion: storage.k8s.io/v1
kind: VolumeAttributesClass
metadata: {name: %s}
driverName: %s
parameters: {%s: %q}
`, name, driver, key, value)
}

// classifiedClaim is the manifest of a claim of a class.
func classifiedClaim(class string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  accessModes: [ReadWriteOnce]
  volumeAttributesClassName: %s
  resources: {requests: {storage: 32Mi}}
`, class)
}

// TestAttributesClassIsProtected checks, with all components, that a deleted VolumeAttributesClass
// stays as long as a volume has it.
func TestAttributesClassIsProtected(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := func() {
		t.Helper()
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	client := c.Client()
	name := "fast"
	disk := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
	disk.Spec.VolumeAttributesClassName = &name
	class := &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: "disk.example.com", Parameters: map[string]string{"iops": "1"},
	}
	if _, err := client.StorageV1().VolumeAttributesClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Server().Add(disk); err != nil {
		t.Fatal(err)
	}
	if err := client.StorageV1().VolumeAttributesClasses().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run()
	if _, exists := c.Server().Get("volumeattributesclasses", "", name); !exists {
		t.Fatal("the class is gone, though a volume has it")
	}
	if err := client.CoreV1().PersistentVolumes().Delete(t.Context(), "disk", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	run()
	if _, exists := c.Server().Get("volumeattributesclasses", "", name); exists {
		t.Error("the class still exists, though no volume has it")
	}
}

// TestQuotasOfAttributesClasses changes the class of a claim under quotas of one claim a class. While a
// volume is modified, and after its driver has refused the class, the claim counts for both classes.
func TestQuotasOfAttributesClasses(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testcheck.NoError(t, c.Start(t.Context()))
	for _, of := range [][2]string{{"slow", "100"}, {"fast", "3000"}, {"wrong", "lots"}} {
		class, iops := of[0], of[1]
		testcheck.NoError(t, c.Apply(t.Context(), attributesClass(c.DeviceState().Driver(), class, "iops", iops)), c.Apply(t.Context(), `
apiVersion: v1
kind: ResourceQuota
metadata: {name: `+class+`}
spec:
  hard: {persistentvolumeclaims: 1}
  scopeSelector:
    matchExpressions: [{scopeName: VolumeAttributesClass, operator: In, values: [`+class+`]}]
`))
	}
	claim := func(name, class string) error {
		err := c.Apply(t.Context(), strings.ReplaceAll(classifiedClaim(class), "name: data", "name: "+name))
		testcheck.NoError(t, c.Run(t.Context()))
		return err
	}
	used := func(want map[string]int64) {
		t.Helper()
		got := map[string]int64{}
		for _, obj := range c.Server().List("resourcequotas") {
			q := obj.(*corev1.ResourceQuota)
			number := q.Status.Used[corev1.ResourcePersistentVolumeClaims]
			got[q.Name] = number.Value()
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("claims by class (-want +got):\n%s", diff)
		}
	}
	refused := func(err error) {
		t.Helper()
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "exceeded quota") {
			t.Errorf("got %v, want an exceeded quota", err)
		}
	}
	testcheck.NoError(t, c.Run(t.Context()), claim("data", "slow"))
	used(map[string]int64{"slow": 1, "fast": 0, "wrong": 0})
	refused(claim("more", "slow"))
	testcheck.NoError(t, claim("data", "fast"))
	used(map[string]int64{"slow": 0, "fast": 1, "wrong": 0})
	testcheck.NoError(t, claim("more", "slow"))
	refused(claim("more", "fast"))
	testcheck.NoError(t, claim("more", "wrong"))
	used(map[string]int64{"slow": 1, "fast": 1, "wrong": 1})
	refused(claim("data", "slow"))
	testcheck.NoError(t, claim("more", "slow"))
	used(map[string]int64{"slow": 1, "fast": 1, "wrong": 0})
}

// TestIdleClassesCostNoSteps checks that the resizer takes no step for a class, a claim of a class, or a
// volume of one, until the class of a claim is changed.
func TestIdleClassesCostNoSteps(t *testing.T) {
	c, err := cluster.New(cluster.Config{Stepped: &sim.SteppedConfig{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	testcheck.NoError(t, c.Start(t.Context()))
	steps := func(act func() error) (taken []string) {
		t.Helper()
		from := len(c.Trace().Records())
		testcheck.NoError(t, act(), c.Run(t.Context()))
		for _, r := range c.Trace().Records()[from:] {
			if strings.HasPrefix(r.Task, "resizer/") {
				taken = append(taken, r.Task+" "+r.Verb)
			}
		}
		return taken
	}
	driver := c.DeviceState().Driver()
	apply := func(manifest string) func() error { return func() error { return c.Apply(t.Context(), manifest) } }
	for _, manifest := range []string{attributesClass(driver, "slow", "iops", "100"), classifiedClaim("slow"), attributesClass(driver, "other", "iops", "1")} {
		if taken := steps(apply(manifest)); len(taken) > 0 {
			t.Errorf("the resizer took steps: %q, after%s", taken, manifest)
		}
	}
	want := []string{
		"resizer/cache persistentvolumeclaims MODIFIED", "resizer/cache volumeattributesclasses LIST", "resizer/modifications sync",
		"resizer/modifications ControllerGetCapabilities", "resizer/modifications patch/status",
		"resizer/events create",
	}
	if diff := cmp.Diff(want, slices.Compact(steps(apply(classifiedClaim("fast"))))); diff != "" {
		t.Errorf("steps for a missing class (-want +got):\n%s", diff)
	}
	if taken := steps(apply(attributesClass(driver, "fast", "iops", "3000"))); len(taken) == 0 || taken[0] != "resizer/cache volumeattributesclasses ADDED" {
		t.Errorf("steps for the class: %q", taken)
	}
}
