package fake_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/sim"
)

func TestProtectionFinalizers(t *testing.T) {
	w := newWorld(t)
	expect(t, w.create("a").Finalizers, []string{"kubernetes.io/pvc-protection"})
	v := testcheck.Must(w.User.CoreV1().PersistentVolumes().Create(w.Context(), newVolume("v"), metav1.CreateOptions{}))
	expect(t, v.Finalizers, []string{"kubernetes.io/pv-protection"})
}

// TestSkipProtection creates objects without finalizers, and keeps those that they come with. A claim is then gone at
// once.
func TestSkipProtection(t *testing.T) {
	ctx, all := t.Context(), metav1.CreateOptions{}
	server := fake.NewServer(fake.Config{Now: sim.DirectCaller().Now, SkipProtection: true})
	client := server.Client(sim.DirectCaller())
	claims := client.CoreV1().PersistentVolumeClaims("default")
	expect(t, testcheck.Must(claims.Create(ctx, newClaim("a"), all)).Finalizers, nil)
	testcheck.NoError(t, claims.Delete(ctx, "a", metav1.DeleteOptions{}))
	kept := newClaim("a", func(c *claim) { c.Finalizers = []string{"example.com/backup"} })
	expect(t, testcheck.Must(claims.Create(ctx, kept, all)).Finalizers, []string{"example.com/backup"})
	expect(t, testcheck.Must(client.CoreV1().PersistentVolumes().Create(ctx, newVolume("v"), all)).Finalizers, nil)
	class := testcheck.Must(client.StorageV1().VolumeAttributesClasses().Create(ctx, &storagev1.VolumeAttributesClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "d", Parameters: map[string]string{"iops": "1"},
	}, all))
	expect(t, class.Finalizers, nil)
}

// TestCrossNamespaceSources has the feature gate off and on.
func TestCrossNamespaceSources(t *testing.T) {
	ctx := t.Context()
	from := func(namespace string) *claim {
		return newClaim("a", func(c *claim) {
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Namespace: &namespace, Name: "data"}
		})
	}
	create := func(enabled bool, c *claim) (*claim, error) {
		server := fake.NewServer(fake.Config{Now: sim.DirectCaller().Now, CrossNamespaceSources: enabled})
		return server.Client(sim.DirectCaller()).CoreV1().PersistentVolumeClaims("default").Create(ctx, c, metav1.CreateOptions{})
	}
	if got := testcheck.Must(create(false, from("other"))).Spec; got.DataSourceRef != nil || got.DataSource != nil {
		t.Errorf("off: %v, %v", got.DataSourceRef, got.DataSource)
	}
	if got := testcheck.Must(create(true, from("other"))).Spec; got.DataSourceRef == nil || *got.DataSourceRef.Namespace != "other" || got.DataSource != nil {
		t.Errorf("on: %v, %v", got.DataSourceRef, got.DataSource)
	}
	both := from("other")
	both.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "data"}
	_, err := create(true, both)
	if err == nil || !strings.Contains(err.Error(), "may not be specified when dataSourceRef.namespace is specified") {
		t.Errorf("two sources: %v", err)
	}
	_, err = create(true, from("not a name"))
	if err == nil || !strings.Contains(err.Error(), `spec.dataSourceRef.namespace: Invalid value: "not a name"`) {
		t.Errorf("an invalid namespace: %v", err)
	}
}

func isDefault(annotation string) func(*storagev1.StorageClass) {
	return func(c *storagev1.StorageClass) { metav1.SetMetaDataAnnotation(&c.ObjectMeta, annotation, "true") }
}

func TestDefaultClass(t *testing.T) {
	const ga, beta1 = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	unset := func(c *claim) { c.Spec.StorageClassName = nil }
	for _, test := range []struct {
		name    string
		classes [][]*storagev1.StorageClass // a second apart
		change  func(*claim)
		want    *string
	}{
		{"no default", [][]*storagev1.StorageClass{{newClass("a")}}, unset, nil},
		{"default", [][]*storagev1.StorageClass{{newClass("a"), newClass("b", isDefault(ga))}}, unset, ptr.To("b")},
		{
			"beta annotation of the class",
			[][]*storagev1.StorageClass{{newClass("b", isDefault(beta1))}},
			unset,
			ptr.To("b"),
		},
		{
			"two of an age",
			[][]*storagev1.StorageClass{{newClass("c", isDefault(ga)), newClass("b", isDefault(ga))}},
			unset,
			ptr.To("b"),
		},
		{
			"the newest",
			[][]*storagev1.StorageClass{{newClass("a", isDefault(ga))}, {newClass("z", isDefault(ga))}},
			unset,
			ptr.To("z"),
		},
		{
			"none wanted",
			[][]*storagev1.StorageClass{{newClass("b", isDefault(ga))}},
			func(c *claim) { c.Spec.StorageClassName = ptr.To("") }, ptr.To(""),
		},
		{"class in the beta annotation", [][]*storagev1.StorageClass{{newClass("b", isDefault(ga))}}, beta("x"), nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			now := sim.Epoch
			s := fake.NewServer(fake.Config{Now: func() time.Time { return now }})
			c, ctx := s.Client(direct), t.Context()
			for _, some := range test.classes {
				now = now.Add(time.Second)
				for _, class := range some {
					testcheck.Must(c.StorageV1().StorageClasses().Create(ctx, class,
						metav1.CreateOptions{}))
				}
			}
			got := testcheck.Must(c.CoreV1().PersistentVolumeClaims("default").Create(ctx, newClaim("a", test.change),
				metav1.CreateOptions{}))
			expect(t, got.Spec.StorageClassName, test.want)
		})
	}
}

func TestResize(t *testing.T) {
	for _, test := range []struct {
		name  string
		class []*storagev1.StorageClass
		want  []string
	}{
		{"allowed", []*storagev1.StorageClass{newClass("gold",
			func(c *storagev1.StorageClass) { c.AllowVolumeExpansion = ptr.To(true) })}, nil},
		{
			"not allowed",
			[]*storagev1.StorageClass{newClass("gold")},
			[]string{`persistentvolumeclaims "a" is forbidden: ` +
				"only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"},
		},
		{"no class", nil, []string{`persistentvolumeclaims "a" is forbidden: ` +
			"only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			for _, class := range test.class {
				testcheck.Must(w.User.StorageV1().StorageClasses().Create(w.Context(), class,
					metav1.CreateOptions{}))
			}
			c := w.create("a")
			c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, storage("1Gi")
			c = w.updateStatus(c)
			c.Spec.Resources.Requests = storage("2Gi")
			_, err := w.claims.Update(w.Context(), c, metav1.UpdateOptions{})
			expect(t, causes(err), test.want)
		})
	}
}
