package serviceaccounttoken_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/controllers/serviceaccounttoken"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

const certificate = "CA Data"

// A world is a server with the controller and the namespace n.
type world struct {
	*testworld.World
}

func newWorld(t *testing.T, chooser sim.Chooser, objects ...runtime.Object) *world {
	w := testworld.NewWith(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 5000},
		fake.Config{Namespaces: []string{"n"}, RootCA: certificate, TokenKey: []byte("key")})
	testcheck.NoError(t, w.Server.Add(objects...))
	process := w.Host.Process("tokens")
	serviceaccounttoken.New(serviceaccounttoken.Config{
		Process: process, Client: w.Server.Client(process), Informers: w.Server.Informers(process), RootCA: certificate,
		Token: w.Server.LegacyToken,
	})
	return &world{w}
}

// requests are those of the controller's workers.
func (w *world) requests() []string {
	all := []string{}
	for _, r := range w.Host.Log().Records() {
		if r.Kind == trace.KindAPI && strings.HasPrefix(r.Task, "tokens/") && (r.Verb == "get" || r.Verb == "update" || r.Verb == "delete") {
			all = append(all, r.Verb+" "+r.Object)
		}
	}
	return all
}

// account is the account a, which refers to secrets.
func account(secrets ...string) *corev1.ServiceAccount {
	a := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a", UID: "12345"}}
	for _, s := range secrets {
		a.Secrets = append(a.Secrets, corev1.ObjectReference{Name: s})
	}
	return a
}

// full is the content of a secret that lacks nothing.
var full = map[string]string{"token": "ABC", "ca.crt": certificate, "namespace": "n"}

// with returns content with other values; "" removes one.
func with(changes map[string]string) map[string]string {
	out := maps.Clone(full)
	for key, value := range changes {
		if out[key] = value; value == "" {
			delete(out, key)
		}
	}
	return out
}

// secretOf returns the secret t of the account a.
func secretOf(uid types.UID, content map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "t", UID: "23456", Annotations: map[string]string{corev1.ServiceAccountNameKey: "a"}},
		Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{},
	}
	if uid != "" {
		s.Annotations[corev1.ServiceAccountUIDKey] = string(uid)
	}
	for key, value := range content {
		s.Data[key] = []byte(value)
	}
	return s
}

func opaque() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "regular"}, Data: map[string][]byte{"k": []byte("v")}}
}

var (
	fills   = []string{"get secrets/n/t", "update secrets/n/t"}
	removes = []string{"get serviceaccounts/n/a", "delete secrets/n/t"}
	none    = []string{}
)

// TestSecrets has the rows of upstream's table: what is stored, what happens, and the requests that follow. The last rows are our
// own.
func TestSecrets(t *testing.T) {
	ctx := context.Background()
	create := func(s *corev1.Secret) func(*world) {
		return func(w *world) {
			testcheck.Must(w.User.CoreV1().Secrets("n").Create(ctx, s, metav1.CreateOptions{}))
		}
	}
	touch := func(w *world) {
		s := testcheck.Must(w.User.CoreV1().Secrets("n").Get(ctx, "t", metav1.GetOptions{}))
		s.Labels = map[string]string{"touched": "yes"}
		testcheck.Must(w.User.CoreV1().Secrets("n").Update(ctx, s, metav1.UpdateOptions{}))
	}
	replace := func(content map[string]string) func(*world) {
		return func(w *world) {
			s := testcheck.Must(w.User.CoreV1().Secrets("n").Get(ctx, "t", metav1.GetOptions{}))
			s.Data = secretOf("", content).Data
			testcheck.Must(w.User.CoreV1().Secrets("n").Update(ctx, s, metav1.UpdateOptions{}))
		}
	}
	touchAccount := func(w *world) {
		a := testcheck.Must(w.User.CoreV1().ServiceAccounts("n").Get(ctx, "a", metav1.GetOptions{}))
		a.Labels = map[string]string{"touched": "yes"}
		testcheck.Must(w.User.CoreV1().ServiceAccounts("n").Update(ctx, a, metav1.UpdateOptions{}))
	}
	createAccount := func(secrets ...string) func(*world) {
		return func(w *world) {
			testcheck.Must(w.User.CoreV1().ServiceAccounts("n").Create(ctx, account(secrets...), metav1.CreateOptions{}))
		}
	}
	deleteAccount := func(w *world) {
		w.NoError(w.User.CoreV1().ServiceAccounts("n").Delete(ctx, "a", metav1.DeleteOptions{}))
	}
	deleteSecret := func(w *world) { w.NoError(w.User.CoreV1().Secrets("n").Delete(ctx, "t", metav1.DeleteOptions{})) }
	objects := func(all ...runtime.Object) []runtime.Object { return all }
	filled := secretOf("12345", full)
	for _, tt := range []struct {
		name   string
		stored []runtime.Object
		act    func(*world)
		want   []string
	}{
		{"new account without secrets", nil, createAccount(), none},
		{"new account with a missing secret", nil, createAccount("missing"), none},
		{"new account with another secret", objects(opaque()), createAccount("regular"), none},
		{"changed account without secrets", objects(account()), touchAccount, none},
		{"changed account with a missing secret", objects(account("missing")), touchAccount, none},
		{"changed account with another secret", objects(account("regular"), opaque()), touchAccount, none},
		{"changed account with a token", objects(account("t"), filled), touchAccount, none},
		{"deleted account without secrets", objects(account()), deleteAccount, none},
		{"deleted account with a missing secret", objects(account("missing")), deleteAccount, none},
		{"deleted account with another secret", objects(account("regular"), opaque()), deleteAccount, none},
		{"deleted account with a token", objects(account("t"), filled), deleteAccount, []string{"delete secrets/n/t"}},

		{"new secret without account", nil, create(filled), removes},
		{"new secret with account", objects(account("t")), create(filled), none},
		{"new secret without token", objects(account("t")), create(secretOf("12345", with(map[string]string{"token": ""}))), fills},
		{"new secret without certificate", objects(account("t")), create(secretOf("12345", with(map[string]string{"ca.crt": ""}))), fills},
		{"new secret with another certificate", objects(account("t")), create(secretOf("12345", with(map[string]string{"ca.crt": "x"}))), fills},
		{"new secret without namespace", objects(account("t")), create(secretOf("12345", with(map[string]string{"namespace": ""}))), fills},
		{"new secret with a namespace of its own", objects(account("t")), create(secretOf("12345", with(map[string]string{"namespace": "x"}))), none},

		{"changed secret with account", objects(account("t"), filled), touch, none},
		{"changed secret without token", objects(account("t"), filled), replace(with(map[string]string{"token": ""})), fills},
		{"changed secret without certificate", objects(account("t"), filled), replace(with(map[string]string{"ca.crt": ""})), fills},
		{"changed secret with another certificate", objects(account("t"), filled), replace(with(map[string]string{"ca.crt": "x"})), fills},
		{"changed secret without namespace", objects(account("t"), filled), replace(with(map[string]string{"namespace": ""})), fills},
		{"changed secret with a namespace of its own", objects(account("t"), filled), replace(with(map[string]string{"namespace": "x"})), none},

		{
			"deleted secret with a reference", objects(account("t"), filled), deleteSecret,
			[]string{"get serviceaccounts/n/a", "update serviceaccounts/n/a"},
		},
		{"deleted secret without a reference", objects(account(), filled), deleteSecret, []string{"get serviceaccounts/n/a"}},

		{"new secret of a previous account of the name", objects(account()), create(secretOf("another", nil)), removes},
		{"new secret that names no UID", objects(account()), create(secretOf("", nil)), fills},
	} {
		t.Run(tt.name, func(t *testing.T) {
			copies := make([]runtime.Object, len(tt.stored))
			for i, o := range tt.stored {
				copies[i] = o.DeepCopyObject()
			}
			w := newWorld(t, nil, copies...)
			w.Run()
			testcheck.Equal(t, "requests before", none, w.requests())
			tt.act(w)
			w.Run()
			testcheck.Equal(t, "requests", tt.want, w.requests())
		})
	}
}

// TestSecretIsFilledOrDeleted ends in such a state in whatever order the steps are: a secret has a valid token of an account that
// exists, or is deleted. As upstream's, the controller may also delete a secret that does not name a UID yet, when it handles the
// deletion of an earlier account of the name late.
func TestSecretIsFilledOrDeleted(t *testing.T) {
	ctx := context.Background()
	kept := 0
	for seed := range uint64(60) {
		w := newWorld(t, sim.NewSeeded(seed), account(), opaque())
		accounts, secrets := w.User.CoreV1().ServiceAccounts("n"), w.User.CoreV1().Secrets("n")
		steps := func() {
			for range seed % 5 {
				w.Host.Step()
			}
		}
		testcheck.Must(secrets.Create(ctx, secretOf("", nil), metav1.CreateOptions{}))
		steps()
		w.NoError(accounts.Delete(ctx, "a", metav1.DeleteOptions{}))
		steps()
		again := seed%2 == 0
		if again {
			testcheck.Must(accounts.Create(ctx, account(), metav1.CreateOptions{}))
		}
		other := secretOf("", nil)
		other.Name = "u"
		testcheck.Must(secrets.Create(ctx, other, metav1.CreateOptions{}))
		w.Run()
		for _, obj := range w.Server.List("secrets") {
			s := obj.(*corev1.Secret)
			if !serviceaccounttoken.IsToken(s) {
				continue
			}
			kept++
			user, _, err := w.Server.AuthenticateToken(string(s.Data["token"]))
			if !again || err != nil || user.Username != "system:serviceaccount:n:a" || string(s.Data["ca.crt"]) != certificate ||
				s.Annotations[corev1.ServiceAccountUIDKey] != user.UID {
				t.Fatalf("seed %d: secret %s: user %+v, error %v\n%s", seed, s.Name, user, err, w.Host.Log().Text())
			}
		}
	}
	if kept < 10 {
		t.Errorf("%d secrets are kept", kept)
	}
}
