"""Creates a long session in google-adk's database. Usage: fill.py URL APP USER SESSION EVENTS"""
import sys; sys.path.insert(0, __import__("os").path.dirname(__import__("os").path.abspath(__file__)))
from common import *


async def main(url, app, user, session, events):
    service = make_service("db", url)
    made = await service.create_session(app_name=app, user_id=user, session_id=session)
    await preload(service, "db", made, int(events))


asyncio.run(main(*sys.argv[1:]))
