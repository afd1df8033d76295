package fake

// An applier makes a change.
type applier interface {
	// apply returns the new object for the stored one, which is nil if there is none. It is called
	// again if the stored one changed meanwhile. The result becomes the store's.
	apply(old Object) (Object, error)
}

// An applyFunc is a function as an applier.
type applyFunc func(old Object) (Object, error)

func (f applyFunc) apply(old Object) (Object, error) { return f(old) }

// An updateRequest is the applier of Update.
type updateRequest struct {
	r       ResourceClient
	obj     Object      // as it was sent
	through subresource // of the request
	via     subresource // in managed fields
	manager string

	admitted bool     // see ResourceClient.draft
	warnings []string // of the last attempt
}

func (u *updateRequest) apply(old Object) (Object, error) {
	obj := u.r.draft(u.obj, old, u.through, u.admitted)
	u.warnings = dedupOwners(metaOf(obj), duplicateOwnersMsg)
	shown, err := u.r.fromStoredForWrite(old)
	if err != nil {
		return nil, err
	}
	u.r.track(obj, shown, u.via, u.manager)
	return u.r.toStored(obj, old)
}
