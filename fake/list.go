package fake

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	tooLargeMsg        = "Too large resource version"
	expiredListMsg     = "The resourceVersion for the provided list is too old."
	expiredContinueMsg = "The provided continue parameter is too old to display a consistent list result. " +
		"You must start a new list without the continue parameter."
)

// list returns the selected objects of a resource at one revision, in the form of the kind. The
// objects are read-only.
//
// Differs: resourceVersion "0" returns the newest state, not any.
func (s *Server) list(k *kind, namespace string, opts *metav1.ListOptions) (ObjectList, error) {
	if err := validateList(opts, false); err != nil {
		return ObjectList{}, err
	}
	sel, err := newSelector(k, namespace, opts)
	if err != nil {
		return ObjectList{}, err
	}
	objects, revision, from, err := s.listSnapshot(s.tableOf(k), opts)
	if err != nil {
		return ObjectList{}, err
	}
	out := ObjectList{ListMeta: metav1.ListMeta{ResourceVersion: formatRevision(revision)}}
	if sel.all() && namespace == "" && from == "" && opts.Limit == 0 {
		out.Objects, err = k.show(objects.Values())
		return out, err
	}
	more, err := sel.page(objects, from, opts.Limit, &out)
	if err != nil {
		return ObjectList{}, err
	}
	if more != "" {
		out.Continue = continueToken{Revision: revision, Start: more}.String()
		if sel.all() {
			var rest int64
			sel.scan(objects, more, func(string, Object) bool { rest++; return true })
			out.RemainingItemCount = &rest
		}
	}
	return out, nil
}

// page appends up to limit selected objects to a list, from a key on, in the form of the kind. It
// returns the key of the next selected object, or "".
func (s *selector) page(objects *objectMap, from string, limit int64, out *ObjectList) (string, error) {
	if s.readsConverted() {
		return s.convertedPage(objects, from, limit, out)
	}
	more := ""
	s.scan(objects, from, func(key string, obj Object) bool {
		if limit > 0 && int64(len(out.Objects)) == limit {
			more = key
			return false
		}
		out.Objects = append(out.Objects, obj)
		return true
	})
	var err error
	out.Objects, err = s.kind.show(out.Objects)
	return more, err
}

// listSnapshot returns the snapshot for a list, its revision, and the key to start at.
func (s *Server) listSnapshot(t *table, opts *metav1.ListOptions) (*objectMap, int64, string, error) {
	if opts.Continue != "" {
		token, err := parseContinue(opts)
		if err != nil {
			return nil, 0, "", err
		}
		if current := s.Revision(); token.Revision > current {
			return nil, 0, "", tooLarge(token.Revision, current)
		}
		objects, ok := s.snapshotAt(t, token.Revision)
		if !ok {
			return nil, 0, "", apierrors.NewResourceExpired(expiredContinueMsg)
		}
		return objects, token.Revision, token.Start, nil
	}
	requested, err := parseRevision(opts.ResourceVersion)
	if err != nil {
		return nil, 0, "", apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	}
	objects, revision := s.snapshot(t)
	exact := opts.ResourceVersionMatch == metav1.ResourceVersionMatchExact ||
		opts.ResourceVersionMatch == "" && opts.Limit > 0 && requested > 0
	switch {
	case requested > revision:
		return nil, 0, "", tooLarge(requested, revision)
	case exact && requested < revision:
		objects, ok := s.snapshotAt(t, requested)
		if !ok {
			return nil, 0, "", apierrors.NewResourceExpired(expiredListMsg)
		}
		return objects, requested, "", nil
	}
	return &objects, revision, "", nil
}

// parseRevision parses a resourceVersion; "" is 0.
func parseRevision(rv string) (int64, error) {
	if rv == "" {
		return 0, nil
	}
	r, err := strconv.ParseUint(rv, 10, 63)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), rv, err.Error())
	}
	return int64(r), nil
}

func tooLarge(requested, current int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("%s: %d, current: %d", tooLargeMsg, requested, current), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type:    metav1.CauseTypeResourceVersionTooLarge,
		Message: tooLargeMsg,
	}}
	return err
}

// validateList validates the options of a list or a watch.
func validateList(opts *metav1.ListOptions, watch bool) error {
	if opts.ResourceVersionMatch == "" && opts.SendInitialEvents == nil {
		return nil
	}
	errs := validation.ValidateListOptions(&internalversion.ListOptions{
		Watch:                watch,
		ResourceVersion:      opts.ResourceVersion,
		ResourceVersionMatch: opts.ResourceVersionMatch,
		Continue:             opts.Continue,
		SendInitialEvents:    opts.SendInitialEvents,
	}, true)
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return nil
}

// A continueToken has the position at which a limited list continues.
//
// Upstream: k8s.io/apiserver/pkg/storage continueToken.
type continueToken struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

const continueVersion = "meta.k8s.io/v1"

// String returns the encoded token.
func (c continueToken) String() string {
	c.Version = continueVersion
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // two strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parseContinue(opts *metav1.ListOptions) (continueToken, error) {
	var c continueToken
	if opts.ResourceVersion != "" && opts.ResourceVersion != "0" {
		return c, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	text, err := base64.RawURLEncoding.DecodeString(opts.Continue)
	if err != nil {
		return c, badContinue(err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, badContinue(err)
	}
	switch {
	case c.Version != continueVersion:
		return c, badContinue(fmt.Errorf("server does not recognize this encoded version %q", c.Version))
	case c.Revision <= 0 || strings.TrimSpace(c.Start) == "":
		return c, badContinue(fmt.Errorf("incorrect encoded start resourceVersion (version %s)", continueVersion))
	}
	return c, nil
}

func badContinue(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: continue key is not valid: %v", err))
}
