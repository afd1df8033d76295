package crd_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/fake/crd"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
)

// serveHook serves a webhook by HTTPS, as hook.shop.svc and 127.0.0.1. It returns its URL and the
// CA bundle.
func serveHook(t *testing.T, h http.Handler) (*url.URL, []byte) {
	t.Helper()
	key := testcheck.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hook"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		DNSNames: []string{"hook.shop.svc"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := testcheck.Must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return testcheck.Must(url.Parse(s.URL)), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// setHook changes the client configuration of the ovens' webhook.
func (w *world) setHook(config map[string]any) {
	w.Helper()
	for _, other := range []string{"url", "service", "caBundle"} {
		if _, ok := config[other]; !ok {
			config[other] = nil
		}
	}
	data := testcheck.Must(json.Marshal(map[string]any{
		"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": config}}},
	}))
	testcheck.Must(w.patch(definitions, "", ovensName, string(data)))
}

// oven returns an oven as a dynamic client sends it.
func oven(version, name string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "shop.example.com/" + version, "kind": "Oven", "metadata": map[string]any{"name": name}, "spec": spec,
	}}
}

// A webhook is called by HTTPS at its URL, whichever client makes the request.
func TestWebhookByHTTPS(t *testing.T) {
	for _, by := range []string{"typed", "in memory", "HTTPS"} {
		t.Run(by, func(t *testing.T) {
			w, _ := newOvens(t)
			h := newHook()
			at, ca := serveHook(t, h)
			w.setHook(map[string]any{"url": at.JoinPath("convert").String(), "caBundle": ca})
			config := apiserver.NewConfig(w.Server, testworld.ImmediateCaller(w.Host.Now))
			if by == "HTTPS" {
				l := testcheck.Must(apiserver.Listen(apiserver.ListenConfig{
					Handler: apiserver.NewHandler(w.Server, apiserver.HandlerConfig{
						Caller: func(*http.Request) sim.Caller { return testworld.ImmediateCaller(w.Host.Now) },
					}),
				}))
				t.Cleanup(func() { w.NoError(l.Close()) })
				config = l.Config()
			}
			client := w.User.Dynamic()
			if by != "typed" {
				client = dynamic.NewForConfigOrDie(clientrest.AddUserAgent(config, "test"))
			}
			v1, v2 := client.Resource(ovensV1).Namespace("default"), client.Resource(ovensV2).Namespace("default")
			testcheck.Must(v1.Create(w.Context(), oven("v1", "a", map[string]any{"celsius": int64(10)}), metav1.CreateOptions{}))
			obj := testcheck.Must(v2.Create(w.Context(), oven("v2", "b", map[string]any{"heat": "20C"}), metav1.CreateOptions{}))
			expect(t, "20C", obj.Object["spec"].(map[string]any)["heat"].(string))
			list := testcheck.Must(v2.List(w.Context(), metav1.ListOptions{}))
			expect(t, "10C", list.Items[0].Object["spec"].(map[string]any)["heat"].(string))
			obj = testcheck.Must(v1.Patch(w.Context(), "b", types.MergePatchType, []byte(`{"spec":{"celsius":30}}`), metav1.PatchOptions{}))
			events := testcheck.Must(v2.Watch(w.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}))
			e := <-events.ResultChan()
			expect(t, "30C", e.Object.(*unstructured.Unstructured).Object["spec"].(map[string]any)["heat"].(string))

			h.mu.Lock()
			h.status = http.StatusServiceUnavailable
			h.mu.Unlock()
			_, err := v2.Get(w.Context(), "a", metav1.GetOptions{})
			expectError(t, "conversion webhook for shop.example.com/v1, Kind=Oven failed: "+
				"the server is currently unable to handle the request", err)
			testcheck.Must(v1.Patch(w.Context(), "b", types.MergePatchType, []byte(`{"spec":{"celsius":40}}`), metav1.PatchOptions{}))
			e = <-events.ResultChan()
			expect(t, watch.Error, e.Type)
			if status, ok := e.Object.(*metav1.Status); ok {
				expect(t, metav1.StatusReasonInternalError, status.Reason)
				expect(t, int32(500), status.Code)
			}
			if _, more := <-events.ResultChan(); more {
				t.Error("the watch goes on")
			}
			h.mu.Lock()
			h.status = 0
			h.mu.Unlock()
			events = testcheck.Must(v2.Watch(w.Context(), metav1.ListOptions{ResourceVersion: obj.GetResourceVersion()}))
			e = <-events.ResultChan()
			events.Stop()
			expect(t, "40C", e.Object.(*unstructured.Unstructured).Object["spec"].(map[string]any)["heat"].(string))
		})
	}
}

// A webhook that refers to a Service is called at the Service's external name or endpoint.
func TestWebhookOfAService(t *testing.T) {
	h := newHook()
	at, ca := serveHook(t, h)
	port := testcheck.Must(strconv.ParseInt(at.Port(), 10, 32))
	w := newWorld(t)
	w.create(definitions, "", ovens)
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	get := func() error {
		_, err := w.resource(ovensV2, "default").Get(w.Context(), "a", metav1.GetOptions{})
		return err
	}
	failed := func(port int64, why string) string {
		return fmt.Sprintf(`conversion webhook for shop.example.com/v1, Kind=Oven failed: `+
			`Post "https://hook.shop.svc:%d/convert?timeout=30s": %s`, port, why)
	}
	refer := func(port int64) {
		w.setHook(map[string]any{"caBundle": ca, "service": map[string]any{
			"namespace": "shop", "name": "hook", "path": "/convert", "port": port,
		}})
	}
	refer(443)
	expectError(t, failed(443, `service "hook" not found`), get())

	testcheck.Must(w.User.CoreV1().Namespaces().Create(w.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{}))
	services := w.User.CoreV1().Services("shop")
	svc := testcheck.Must(services.Create(w.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 443}}},
	}, metav1.CreateOptions{}))
	expectError(t, failed(443, `no endpoints available for service "hook"`), get())
	refer(444)
	expectError(t, failed(444, `no service port 444 found for service "hook"`), get())
	refer(443)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "hook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("web"), Port: ptr.To(int32(port))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"127.0.0.2"}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(false)}},
			{Addresses: []string{"127.0.0.1"}},
		},
	}
	slice = testcheck.Must(w.User.DiscoveryV1().EndpointSlices("shop").Create(w.Context(), slice, metav1.CreateOptions{}))
	w.NoError(get())

	w.NoError(w.User.DiscoveryV1().EndpointSlices("shop").Delete(w.Context(), slice.Name, metav1.DeleteOptions{}))
	svc.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "127.0.0.1"}
	testcheck.Must(services.Update(w.Context(), svc, metav1.UpdateOptions{}))
	refer(port)
	w.NoError(get())
}

// The server's certificate is verified with the CA bundle.
func TestCABundleOfAWebhook(t *testing.T) {
	w, _ := newOvens(t)
	at, _ := serveHook(t, newHook())
	_, other := serveHook(t, newHook())
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	w.setHook(map[string]any{"url": at.JoinPath("convert").String(), "caBundle": other})
	_, err := w.resource(ovensV2, "default").Get(w.Context(), "a", metav1.GetOptions{})
	if err == nil || !strings.Contains(err.Error(), "tls: failed to verify certificate: x509") {
		t.Errorf("got %v", err)
	}
}

// A definition with an invalid CA bundle is created, but established only when the bundle is valid.
func TestInvalidCABundle(t *testing.T) {
	w, h := newOvens(t)
	w.delete(definitions, "", ovensName)
	obj := object(t, ovens)
	config, _, _ := unstructured.NestedMap(obj.Content, "spec", "conversion", "webhook", "clientConfig")
	config["caBundle"] = base64.StdEncoding.EncodeToString([]byte("no certificate"))
	w.NoError(unstructured.SetNestedMap(obj.Content, config, "spec", "conversion", "webhook", "clientConfig"))
	w.create(definitions, "", text(t, obj))
	established := func() map[string]any {
		conditions := w.get(definitions, "", ovensName).Content["status"].(map[string]any)["conditions"].([]any)
		return conditions[len(conditions)-1].(map[string]any)
	}
	expect(t, `{"lastTransitionTime":"2026-01-02T03:04:05Z","message":"The conversion webhook CABundle is invalid",`+
		`"reason":"InvalidCABundle","status":"False","type":"Established"}`, text(t, established()))
	if _, ok := w.User.Resource(ovensV1, "default"); ok {
		t.Error("it is served")
	}
	testcheck.Must(w.patch(definitions, "", ovensName, `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`))
	expect(t, "InitialNamesAccepted", established()["reason"].(string))
	w.create(ovensV2, "default", `{metadata: {name: a}, spec: {heat: 1C}}`)
	expect(t, []string{"v1: a", "v2: a"}, h.taken())
	_, err := w.patch(definitions, "", ovensName, `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"bm8="}}}}}`)
	expectError(t, `CustomResourceDefinition.apiextensions.k8s.io "ovens.shop.example.com" is invalid: `+
		`spec.conversion.webhookClientConfig.caBundle: Invalid value: "bm8=": `+
		`unable to load root certificates: unable to parse bytes as PEM block`, err)
}

// A definition is deleted with its objects although its webhook fails. Watches in other versions
// then end with an error.
func TestDeletedDefinitionWithAFailingWebhook(t *testing.T) {
	w, h := newOvens(t)
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	h.status = http.StatusInternalServerError
	w.delete(definitions, "", ovensName)
	_, ok := w.Server.Get(crd.Definitions, "", ovensName)
	expect(t, false, ok)
	expect(t, 0, w.Server.Count(ovensName))
}

// An informer tries again until the webhook has converted its objects, and misses none.
func TestInformerWithAWebhook(t *testing.T) {
	w, h := newOvens(t)
	w.User = w.Server.Client(w.Host.ExternalCaller())
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	c := w.Host.Process("c")
	informer := testcheck.Must(w.Server.Informers(c).ForResource(ovensV2)).Informer()
	var got []string
	note := func(what string) func(any) {
		return func(obj any) {
			u := obj.(*unstructured.Unstructured)
			got = append(got, fmt.Sprint(what, " ", u.GetName(), " ", u.Object["spec"].(map[string]any)["heat"]))
		}
	}
	testcheck.Must(informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: note("add"), DeleteFunc: note("delete"),
		UpdateFunc: func(_, obj any) { note("update")(obj) },
	}))
	run := func(status int) {
		t.Helper()
		h.status = status
		w.NoError(w.Host.Run())
	}
	run(http.StatusInternalServerError)
	expect(t, false, informer.HasSynced())
	w.create(ovensV1, "default", `{metadata: {name: b}, spec: {celsius: 2}}`)
	run(0)
	expect(t, []string{"add a 1C", "add b 2C"}, got)
	got = nil
	testcheck.Must(w.patch(ovensV1, "default", "a", `{"spec":{"celsius":3}}`))
	run(http.StatusInternalServerError)
	w.delete(ovensV1, "default", "b")
	run(http.StatusInternalServerError)
	expect(t, []string(nil), got)
	testcheck.Must(w.patch(ovensV1, "default", "a", `{"spec":{"celsius":4}}`))
	run(0)
	expect(t, []string{"update a 3C", "delete b 2C", "update a 4C"}, got)
	var errs []string
	for _, r := range w.Host.Log().Records() {
		if r.Err != nil && r.Kind == "deliver" {
			errs = append(errs, r.Task+" "+r.Action.String()+" "+r.Err.Error())
		}
	}
	const why = `conversion webhook for shop.example.com/v1, Kind=Oven failed: ` +
		`an error on the server ("no such oven") has prevented the request from succeeding`
	for _, e := range errs {
		expect(t, "c/cache ovens deliver ERROR ovens "+why, e)
	}
	if len(errs) < 3 {
		t.Errorf("got %d errors", len(errs))
	}
}

// A changed definition is used by an informer that exists.
func TestInformerUsesTheChangedWebhook(t *testing.T) {
	w, _ := newOvens(t)
	other := newHook()
	other.convert = func(obj *unstructured.Unstructured, to string) error {
		err := convertOven(obj, to)
		obj.SetAnnotations(map[string]string{"by": "the other"})
		return err
	}
	at, ca := serveHook(t, other)
	informer := testcheck.Must(w.Server.Informers(w.Host.Process("c")).ForResource(ovensV2))
	informer.Informer()
	w.NoError(w.Host.Run())
	w.setHook(map[string]any{"url": at.JoinPath("convert").String(), "caBundle": ca})
	w.create(ovensV1, "default", `{metadata: {name: a}, spec: {celsius: 1}}`)
	w.NoError(w.Host.Run())
	obj := testcheck.Must(informer.Lister().ByNamespace("default").Get("a")).(*unstructured.Unstructured)
	expect(t, map[string]string{"by": "the other"}, obj.GetAnnotations())
	again := testcheck.Must(w.Server.Informers(w.Host.Process("d")).ForResource(ovensV2))
	again.Informer()
}
