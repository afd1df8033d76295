// Package listen hears what an informer says of objects of one type, told apart by UID.
//
// An informer knows objects by name. After a relist it may say of an object that was deleted and made again that it
// changed, and it may say of one that went only that it is no longer there. Components that keep something for each object
// must not take the second for the first; here both come as what they are.
package eventhandler
