package kernel

// Measured is how fast a device was when it was measured, each a second.
type Measured struct {
	FLOPS     uint64 `cbor:"1,keyasint"` // binary32 operations of a large product
	Bandwidth uint64 `cbor:"2,keyasint"` // bytes of device memory that a product of one row reads
	Tokens    uint64 `cbor:"3,keyasint"` // thousandths of a token: of a model of 1.1e9 weights in 8 bits, at position 256
	Write     uint64 `cbor:"4,keyasint"` // bytes from the host to the device
	Read      uint64 `cbor:"5,keyasint"` // bytes from the device to the host
}
