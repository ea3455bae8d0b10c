package wire

import "galgo"

// A result section leads the body of a reply whose operation is result framed.
//
//	off  size  field
//	  0     4  count   0 on success, 1 on a rejection
//	  4     4  index   of the first entry, 0     (if count is 1)
//	  8     4  code                              (if count is 1)
//
// A rejection has no payload behind it.

// AppendResultOK starts the body of a success; the payload, if any, follows.
func AppendResultOK(b []byte) []byte { return le.AppendUint32(b, 0) }

// AppendResultError is the whole body of a rejection.
func AppendResultError(b []byte, code galgo.Code) []byte {
	b = le.AppendUint32(b, 1)
	b = le.AppendUint32(b, 0)
	return le.AppendUint32(b, uint32(code))
}

// SplitResult takes the result section off a body: the code, CodeOK on success,
// and the payload, aliased. Of several entries the first counts. A section that is
// cut short, or claims a rejection with CodeOK, is an ErrUndecodable.
func SplitResult(body []byte) (code galgo.Code, payload []byte, err error) {
	c := read("result section", body)
	count := c.count("count", 8)
	if count > 0 {
		c.u32("index")
		code = galgo.Code(c.u32("code"))
		if c.err == nil && code == galgo.CodeOK {
			c.fail("code", "a rejection with code 0")
		}
		c.take("entries", 8*uint64(count-1))
	}
	payload = c.rest()
	return code, payload, c.err
}
