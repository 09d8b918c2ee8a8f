//! The address of a client, as limits count it.

use std::net::{IpAddr, Ipv6Addr};

/// The length of the prefix that one IPv6 client has for itself.
const IPV6_PREFIX: u32 = 64;

/// An IPv4 address, or the /64 network of an IPv6 address: a client can use every address of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AddressKey(IpAddr);

impl AddressKey {
    pub(crate) fn new(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                let network = address.to_bits() >> (128 - IPV6_PREFIX) << (128 - IPV6_PREFIX);
                Ipv6Addr::from_bits(network).into()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_client_have_the_same_key() {
        let key = |text: &str| AddressKey::new(text.parse().unwrap());
        assert_eq!(key("10.0.0.1"), key("::ffff:10.0.0.1"));
        assert_ne!(key("10.0.0.1"), key("10.0.0.2"));
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
    }
}
